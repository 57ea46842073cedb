//! Sessions of a web service: looked up by token, and dropped when they have expired.
//!
//! ```text
//! cargo run --release -p strandline --example session_store -- /tmp/sessions.db
//! ```
//!
//! Two maps are kept in step by transactions: sessions by token, and tokens by the time at which they expire. Requests
//! that only extend a session do not wait for the disk: losing the last milliseconds of them to a power failure harms
//! nobody. A login does wait.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use strandline::{HashMap, Options, OrderedMap, Persist, Ptr, Result, Store, Tx};

#[derive(Persist)]
struct Sessions<'p> {
    by_token: HashMap<'p, String, Session>,
    /// Ordered by time, then token.
    by_expiry: OrderedMap<'p, (u64, String), ()>,
}

#[derive(Clone, Copy, Debug, Persist)]
struct Session {
    user: u64,
    /// Seconds since 1970.
    expires: u64,
    requests: u32,
}

const LIFETIME: u64 = 3600;

/// Stores a session under its token, and nowhere else.
fn put<'p>(tx: &Tx<'p>, root: Ptr<'p, Sessions<'p>>, token: &str, session: &Session) -> Result<()> {
    let sessions = root.get(tx)?;
    if let Some(old) = sessions.by_token.insert(tx, &token.to_string(), session)? {
        sessions.by_expiry.remove(tx, &(old.expires, token.to_string()))?;
    }
    sessions.by_expiry.insert(tx, &(session.expires, token.to_string()), &())?;
    Ok(())
}

fn log_in(store: &Store<Sessions>, token: &str, user: u64, now: u64) -> Result<()> {
    store.write(|tx, root| put(tx, root, token, &Session { user, expires: now + LIFETIME, requests: 0 }))
}

/// Extends a session; who it belongs to, if it is there and has not expired.
fn touch(store: &Store<Sessions>, token: &str, now: u64) -> Result<Option<u64>> {
    let (user, _ticket) = store.later().write(|tx, root| {
        let Some(mut session) = root.get(tx)?.by_token.get(tx, token)?.filter(|s| s.expires > now) else {
            return Ok(None);
        };
        session.expires = now + LIFETIME;
        session.requests += 1;
        put(tx, root, token, &session)?;
        Ok(Some(session.user))
    })?;
    Ok(user)
}

/// Drops what has expired, a hundred sessions in a transaction so that none is large.
fn sweep(store: &Store<Sessions>, now: u64) -> Result<u64> {
    let mut swept = 0;
    loop {
        let found = store.write(|tx, root| {
            let sessions = root.get(tx)?;
            let expired: Vec<_> =
                sessions.by_expiry.range(tx, ..(now + 1, String::new())).take(100).collect::<Result<_>>()?;
            for (key, ()) in &expired {
                sessions.by_expiry.remove(tx, key)?;
                sessions.by_token.remove(tx, &key.1)?;
            }
            Ok(expired.len() as u64)
        })?;
        swept += found;
        if found == 0 {
            return Ok(swept);
        }
    }
}

fn main() -> Result<()> {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: session_store FILE");
        std::process::exit(2);
    };
    let options = Options {
        layout_name: "sessions".into(),
        // What a power failure may take of the extended sessions.
        flush_interval: Duration::from_millis(50),
        ..Options::default()
    };
    let store = Store::<Sessions>::open(path, &options, |tx| {
        Ok(Sessions { by_token: HashMap::new(tx)?, by_expiry: OrderedMap::new(tx)? })
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();

    for user in 0..100 {
        log_in(&store, &format!("token-{user}"), user, now)?;
    }
    let (since, requests) = (Instant::now(), 20_000);
    for request in 0..requests {
        let user = request % 100;
        assert_eq!(touch(&store, &format!("token-{user}"), now + request / 1000)?, Some(user));
    }
    println!("{requests} requests in {:.0?}", since.elapsed());
    println!("expired within the hour: {}", sweep(&store, now + 1)?);
    println!("expired two hours later: {}", sweep(&store, now + 2 * LIFETIME)?);
    assert_eq!(touch(&store, "token-1", now)?, None);
    store.close()
}
