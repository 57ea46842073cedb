//! A web service that keeps orders in a Strandline database.
//!
//! - `POST /orders` stores an order. The answer is sent when the order is on the disk.
//! - `GET /orders/{number}` returns one order.
//! - `GET /orders` streams all of them, as they were when the request came, while others are stored.
//!
//! `docs/async.md` explains this code.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use strandline::{Database, Error, Persist, Table, Tx};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;

/// Lines that an export keeps for a client that reads slowly.
const LINES_AHEAD: usize = 64;

#[derive(Clone, Debug, Deserialize, PartialEq, Persist, Serialize)]
pub struct Order {
    pub item: String,
    pub count: u32,
}

/// The state that all requests share. A clone has another handle to the same database.
#[derive(Clone)]
pub struct Orders {
    pub db: Database,
    orders: Table<u64, Order>,
    /// One permit for each order that may be stored at a time.
    permits: Arc<Semaphore>,
}

/// The reason for which a request fails.
pub enum Failure {
    Busy,
    NoSuchOrder,
    Database(Error),
    Panicked(JoinError),
}

impl Orders {
    /// Opens or creates the database at `path`. At most `most_writes` orders are stored at a time; further requests are refused.
    ///
    /// # Errors
    /// Returns the same errors as [`Database::open`].
    pub fn open(path: impl AsRef<FilePath>, most_writes: usize) -> strandline::Result<Self> {
        let db = Database::open(path)?;
        let orders = db.table("orders")?;
        Ok(Self { db, orders, permits: Arc::new(Semaphore::new(most_writes)) })
    }

    pub fn router(self) -> Router {
        Router::new()
            .route("/orders", post(store).get(export))
            .route("/orders/{number}", get(show))
            .with_state(self)
    }

    /// Runs `body` as a transaction. The transaction blocks a thread while it runs, but not while it waits for the disk.
    async fn write<T: Send + 'static>(
        &self,
        body: impl FnMut(&Tx<'_>) -> strandline::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        // Without a bound, requests that arrive faster than the disk stores them would pile up in memory.
        let _permit = self.permits.try_acquire().map_err(|_| Failure::Busy)?;
        let db = self.db.clone();
        let (value, ticket) = spawn_blocking(move || db.later().write(body)).await??;
        ticket.await?;
        Ok(value)
    }
}

async fn store(
    State(state): State<Orders>,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<u64>), Failure> {
    let orders = state.orders.clone();
    let number = state
        .write(move |tx| {
            let number = orders.last(tx)?.map_or(1, |(last, _)| last + 1);
            orders.insert(tx, &number, &order)?;
            Ok(number)
        })
        .await?;
    Ok((StatusCode::CREATED, Json(number)))
}

async fn show(State(state): State<Orders>, Path(number): Path<u64>) -> Result<Json<Order>, Failure> {
    // A read may wait as well: for the disk, if it reads a row that was just stored, or for a page that is not in memory.
    let order = spawn_blocking(move || state.db.read(|tx| state.orders.get(tx, &number))).await??;
    order.map(Json).ok_or(Failure::NoSuchOrder)
}

/// Sends a line of JSON for each order. The snapshot does not change while orders are stored. A slow client delays only this task.
async fn export(State(state): State<Orders>) -> Result<Response, Failure> {
    let (lines, stream) = mpsc::channel::<Result<String, axum::BoxError>>(LINES_AHEAD);
    let snapshot = spawn_blocking({
        let db = state.db.clone();
        move || db.snapshot()
    })
    .await??;
    spawn_blocking(move || {
        for row in snapshot.rows(&state.orders) {
            let line =
                row.map_err(axum::BoxError::from).and_then(|row| Ok(serde_json::to_string(&row)? + "\n"));
            if lines.blocking_send(line).is_err() {
                return; // The client is gone.
            }
        }
    });
    let body = Body::from_stream(ReceiverStream::new(stream));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")]).into_response(),
            Self::NoSuchOrder => StatusCode::NOT_FOUND.into_response(),
            Self::Database(_) | Self::Panicked(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Self::Panicked(error)
    }
}

/// Compiles and runs the examples of `docs/async.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/async.md")]
struct Page;
