//! Requests to the service, and their effects on the database.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum_service::{Order, Orders};
use http_body_util::BodyExt;
use tower::ServiceExt;

async fn request(router: &Router, method: &str, path: &str, body: &str) -> (StatusCode, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

const BOLTS: &str = r#"{"item":"bolt","count":3}"#;

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_stored_shown_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.db");
    let orders = Orders::open(&path, 8).unwrap();
    let (db, router) = (orders.db.clone(), orders.router());
    assert_eq!(request(&router, "POST", "/orders", BOLTS).await, (StatusCode::CREATED, "1".into()));
    assert_eq!(request(&router, "GET", "/orders/1", "").await, (StatusCode::OK, BOLTS.into()));
    assert_eq!(request(&router, "GET", "/orders/2", "").await.0, StatusCode::NOT_FOUND);
    let (_, exported) = request(&router, "GET", "/orders", "").await;
    assert_eq!(exported, format!("[1,{BOLTS}]\n"));

    // The acknowledged rows are there when the file is opened again.
    drop(router);
    db.close().unwrap();
    let db = strandline::Database::open(&path).unwrap();
    let found = db.table::<u64, Order>("orders").unwrap();
    assert_eq!(db.read(|tx| found.get(tx, &1)).unwrap(), Some(Order { item: "bolt".into(), count: 3 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_of_one_moment_and_waits_for_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let orders = Orders::open(folder.path().join("orders.db"), 8).unwrap();
    let router = orders.router();
    for _ in 0..200 {
        assert_eq!(request(&router, "POST", "/orders", BOLTS).await.0, StatusCode::CREATED);
    }
    let get = Request::get("/orders").body(Body::empty()).unwrap();
    let mut body = router.clone().oneshot(get).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"[1,"));
    // More rows than the channel holds are still unread, and the service continues.
    assert_eq!(request(&router, "POST", "/orders", BOLTS).await, (StatusCode::CREATED, "201".into()));
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(rest.iter().filter(|byte| **byte == b'\n').count(), 199);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_bound_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let orders = Orders::open(folder.path().join("orders.db"), 2).unwrap();
    let router = orders.router();
    let requests: Vec<_> = (0..100)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { request(&router, "POST", "/orders", BOLTS).await.0 })
        })
        .collect();
    let mut stored = 0;
    for request in requests {
        match request.await.unwrap() {
            StatusCode::CREATED => stored += 1,
            status => assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE),
        }
    }
    assert!((1..100).contains(&stored), "{stored}");
    let (_, exported) = request(&router, "GET", "/orders", "").await;
    assert_eq!(exported.lines().count(), stored);
}
