//! `axum-service FILE ADDRESS` serves the orders in FILE until Ctrl-C.
//!
//! ```text
//! cargo run --manifest-path examples/axum-service/Cargo.toml -- /tmp/orders.db 127.0.0.1:8080
//! curl -d '{"item": "bolt", "count": 3}' -H 'content-type: application/json' http://127.0.0.1:8080/orders
//! curl http://127.0.0.1:8080/orders
//! ```

use axum_service::Orders;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, address] = arguments.as_slice() else { return Err("usage: axum-service FILE ADDRESS".into()) };
    let orders = Orders::open(file, 64)?;
    let db = orders.db.clone();
    let listener = tokio::net::TcpListener::bind(address).await?;
    let stopped = async { tokio::signal::ctrl_c().await.expect("Ctrl-C can be caught") };
    axum::serve(listener, orders.router()).with_graceful_shutdown(stopped).await?;
    db.close()?;
    Ok(())
}
