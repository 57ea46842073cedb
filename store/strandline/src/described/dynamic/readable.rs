//! Values with a common notation, which are shown as text: identifiers, addresses, dates and times.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::Dynamic;
use crate::value::adapted::is_instant;
use crate::value::persist::Invalid;

const DAY: i64 = 86_400;
const SECOND: u32 = 1_000_000_000;

/// Returns the form in which a value of the type `name` is shown, from its stored form.
///
/// # Errors
/// Returns [`Invalid`] if the type has no such value.
pub(super) fn shown(name: &str, stored: Dynamic) -> Result<Dynamic, Invalid> {
    if let "NonZero" = name {
        return if integer(&stored) == Some(0) { Err(Invalid) } else { Ok(stored) };
    }
    let text = match (name, &stored) {
        ("path", Dynamic::Bytes(bytes)) => {
            let text = String::from_utf8(bytes.clone());
            // Wrapped in a list, to distinguish it from a path that is shown as text.
            return Ok(text.map_or_else(|_| Dynamic::List(vec![stored]), Dynamic::Text));
        }
        ("uuid", Dynamic::List(bytes)) => uuid(bytes),
        ("ordering", _) => ["Less", "Equal", "Greater"]
            .into_iter()
            .zip(-1..)
            .find(|(_, number)| integer(&stored) == Some(*number))
            .map(|(name, _)| name.to_owned()),
        ("ipv4" | "ipv6" | "ip", _) => address(name, &stored).map(|address| address.to_string()),
        ("socket address v4" | "socket address v6" | "socket address", _) => {
            // A flow label cannot be written in the notation of addresses.
            let Some(address) = socket(name, &stored) else { return Err(Invalid) };
            if matches!(address, SocketAddr::V6(address) if address.flowinfo() != 0) {
                return Ok(stored);
            }
            Some(address.to_string())
        }
        ("zoned datetime", Dynamic::List(parts)) => {
            let [parts @ .., Dynamic::Optional(zone)] = parts.as_slice() else { return Err(Invalid) };
            let at = shown("offset datetime", Dynamic::List(parts.to_vec()))?;
            match (at, zone.as_deref()) {
                (Dynamic::Text(text), None) => Some(text),
                (Dynamic::Text(text), Some(Dynamic::Text(zone))) => Some(format!("{text}[{zone}]")),
                _ => return Ok(stored),
            }
        }
        ("date" | "time" | "datetime" | "timestamp" | "offset datetime", _) => {
            let numbers = numbers(&stored).ok_or(Invalid)?;
            if is_odd_leap(name, &numbers) {
                return Ok(stored);
            }
            moment(name, &numbers)
        }
        ("signed duration", _) => {
            let numbers = numbers(&stored).ok_or(Invalid)?;
            let is_one = matches!(numbers.as_slice(), [seconds, nanos]
                if nanos.abs() < i64::from(SECOND) && seconds.signum() * nanos.signum() >= 0);
            return if is_one { Ok(stored) } else { Err(Invalid) };
        }
        _ => return Ok(stored),
    };
    text.map(Dynamic::Text).ok_or(Invalid)
}

/// Returns the stored form of a value of the type `name`, from the form in which it is shown.
///
/// # Errors
/// Returns [`Invalid`] if the type has no such value.
pub(super) fn stored(name: &str, value: &Dynamic) -> Result<Dynamic, Invalid> {
    let stored = match (name, value) {
        ("path", Dynamic::Text(text)) => Some(Dynamic::Bytes(text.clone().into_bytes())),
        ("path", Dynamic::List(one)) if one.len() == 1 => Some(one[0].clone()),
        // This is a set of bytes, which is shown in hexadecimal.
        ("Set", Dynamic::Text(_)) => return Ok(value.clone()),
        (_, Dynamic::Text(text)) => of_text(name, text),
        _ => Some(value.clone()),
    };
    let stored = stored.ok_or(Invalid)?;
    // Refuses values that the type does not have.
    shown(name, stored.clone())?;
    Ok(stored)
}

fn integer(value: &Dynamic) -> Option<i64> {
    match value {
        Dynamic::Unsigned(number) => i64::try_from(*number).ok(),
        Dynamic::Signed(number) => i64::try_from(*number).ok(),
        _ => None,
    }
}

fn numbers(value: &Dynamic) -> Option<Vec<i64>> {
    match value {
        Dynamic::List(list) => list.iter().map(integer).collect(),
        one => integer(one).map(|number| vec![number]),
    }
}

fn uuid(bytes: &[Dynamic]) -> Option<String> {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        let hyphen = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
        let _ = write!(text, "{hyphen}{:02x}", u8::try_from(integer(byte)?).ok()?);
    }
    (bytes.len() == 16).then_some(text)
}

fn address(name: &str, stored: &Dynamic) -> Option<IpAddr> {
    let (is_v6, bits) = match (name, stored) {
        ("ip", Dynamic::List(pair)) => match pair.as_slice() {
            [Dynamic::Bool(is_v6), Dynamic::Unsigned(bits)] => (*is_v6, *bits),
            _ => return None,
        },
        (name, Dynamic::Unsigned(bits)) => (name == "ipv6", *bits),
        _ => return None,
    };
    Some(match is_v6 {
        true => Ipv6Addr::from_bits(bits).into(),
        false => Ipv4Addr::from_bits(bits.try_into().ok()?).into(),
    })
}

fn socket(name: &str, stored: &Dynamic) -> Option<SocketAddr> {
    let Dynamic::List(parts) = stored else { return None };
    let ip = |name, bits| address(name, bits);
    let port = |port| u16::try_from(integer(port)?).ok();
    Some(match (name, parts.as_slice()) {
        ("socket address v4", [bits, number]) => SocketAddr::new(ip("ipv4", bits)?, port(number)?),
        ("socket address v6", [bits, number, flow, scope]) => {
            let IpAddr::V6(ip) = ip("ipv6", bits)? else { return None };
            let word = |number| u32::try_from(integer(number)?).ok();
            SocketAddrV6::new(ip, port(number)?, word(flow)?, word(scope)?).into()
        }
        ("socket address", [Dynamic::Bool(true), socket6]) => socket("socket address v6", socket6)?,
        ("socket address", [Dynamic::Bool(false), Dynamic::List(parts)]) => match parts.as_slice() {
            [bits, number, Dynamic::Unsigned(0), Dynamic::Unsigned(0)] => {
                SocketAddr::new(ip("ipv4", bits)?, port(number)?)
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the stored form of a socket address whose type has this name.
fn of_socket(name: &str, address: SocketAddr) -> Dynamic {
    let list = |numbers: &[u128]| Dynamic::List(numbers.iter().copied().map(Dynamic::Unsigned).collect());
    let (is_v6, socket6) = match address {
        SocketAddr::V4(address) => (false, [address.ip().to_bits().into(), address.port().into(), 0, 0]),
        SocketAddr::V6(address) => {
            let (flow, scope) = (address.flowinfo().into(), address.scope_id().into());
            (true, [address.ip().to_bits(), address.port().into(), flow, scope])
        }
    };
    match name {
        "socket address v4" => list(&socket6[..2]),
        "socket address v6" => list(&socket6),
        _ => Dynamic::List(vec![Dynamic::Bool(is_v6), list(&socket6)]),
    }
}

/// Returns the stored form of the value of the type `name` that is written as `text`.
fn of_text(name: &str, text: &str) -> Option<Dynamic> {
    let unsigned = |number: u32| Dynamic::Unsigned(number.into());
    match name {
        "uuid" => {
            let bytes = hex::decode(text.replace('-', "")).ok()?;
            Some(Dynamic::List(bytes.into_iter().map(|byte| unsigned(byte.into())).collect()))
        }
        "ordering" => {
            let at = ["Less", "Equal", "Greater"].iter().position(|name| *name == text)?;
            Some(Dynamic::Signed(at as i128 - 1))
        }
        "ipv4" => Some(unsigned(text.parse::<Ipv4Addr>().ok()?.to_bits())),
        "ipv6" => Some(Dynamic::Unsigned(text.parse::<Ipv6Addr>().ok()?.to_bits())),
        "ip" => {
            let (is_v6, bits) = match text.parse().ok()? {
                IpAddr::V4(address) => (false, address.to_bits().into()),
                IpAddr::V6(address) => (true, address.to_bits()),
            };
            Some(Dynamic::List(vec![Dynamic::Bool(is_v6), Dynamic::Unsigned(bits)]))
        }
        "socket address v4" => Some(of_socket(name, text.parse::<SocketAddrV4>().ok()?.into())),
        "socket address v6" => Some(of_socket(name, text.parse::<SocketAddrV6>().ok()?.into())),
        "socket address" => Some(of_socket(name, text.parse().ok()?)),
        "zoned datetime" => {
            let (moment, zone) = match text.strip_suffix(']') {
                Some(text) => text.split_once('[').map(|(moment, zone)| (moment, Some(zone)))?,
                None => (text, None),
            };
            let Dynamic::List(mut parts) = of_moment("offset datetime", moment)? else { return None };
            let zone = zone.map(|zone| Box::new(Dynamic::Text(zone.to_owned())));
            parts.push(Dynamic::Optional(zone));
            Some(Dynamic::List(parts))
        }
        "NonZero" | "Range" | "RangeInclusive" | "Map" => Some(Dynamic::Text(text.to_owned())),
        _ => of_moment(name, text),
    }
}

/// Returns the notation of the date or time that is stored as these numbers.
fn moment(name: &str, numbers: &[i64]) -> Option<String> {
    let is_day = |day: i64| i32::try_from(day).is_ok();
    match (name, numbers) {
        ("date", &[day]) if is_day(day) => Some(date(day)),
        ("time", &[second, nanos]) => time(second, nanos),
        ("datetime", &[day, second, nanos]) if is_day(day) => {
            Some(format!("{}T{}", date(day), time(second, nanos)?))
        }
        ("timestamp", &[seconds, nanos]) => Some(format!("{}Z", instant(seconds, nanos)?)),
        ("offset datetime", &[seconds, nanos, offset]) if offset.abs() < DAY => {
            let sign = if offset < 0 { '-' } else { '+' };
            let (minutes, rest) = (offset.abs() / 60, offset.abs() % 60);
            let seconds = instant(seconds.checked_add(offset)?, nanos)?;
            let mut text = format!("{seconds}{sign}{:02}:{:02}", minutes / 60, minutes % 60);
            if rest > 0 {
                let _ = write!(text, ":{rest:02}");
            }
            Some(text)
        }
        _ => None,
    }
}

/// Returns whether the time is a leap second that is not at the end of a minute. It has no notation and is shown as numbers.
fn is_odd_leap(name: &str, numbers: &[i64]) -> bool {
    let mut of_whole = numbers.to_vec();
    let nanos = match (name, of_whole.as_mut_slice()) {
        ("time" | "timestamp", [_, nanos])
        | ("datetime", [_, _, nanos])
        | ("offset datetime", [_, nanos, _]) => nanos,
        _ => return false,
    };
    *nanos = nanos.saturating_sub(i64::from(SECOND));
    (0..i64::from(SECOND)).contains(nanos)
        && moment(name, numbers).is_none()
        && moment(name, &of_whole).is_some()
}

fn instant(seconds: i64, nanos: i64) -> Option<String> {
    let time = time(seconds.rem_euclid(DAY), nanos)?;
    Some(format!("{}T{time}", date(seconds.div_euclid(DAY))))
}

/// Returns the notation of a second of the day. A leap second is second 60 of its minute.
fn time(second: i64, nanos: i64) -> Option<String> {
    let nanos = u32::try_from(nanos).ok()?;
    if !(0..DAY).contains(&second) || !is_instant(second, nanos) {
        return None;
    }
    let (minutes, in_minute) = (second / 60, second % 60 + i64::from(nanos / SECOND));
    let mut text = format!("{:02}:{:02}:{in_minute:02}", minutes / 60, minutes % 60);
    if !nanos.is_multiple_of(SECOND) {
        let fraction = format!("{:09}", nanos % SECOND);
        let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
    }
    Some(text)
}

/// Returns the date of a day, counted from 1970-01-01, in the Gregorian calendar. The number may have up to 50 bits. (Hinnant, "chrono-compatible
/// low-level date algorithms".)
fn date(day: i64) -> String {
    // Days since 0000-03-01, divided into periods of 400 years.
    let day = day + 719_468;
    let (period, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    match 400 * period + year + next {
        year @ 0..=9_999 => format!("{year:04}-{month:02}-{day:02}"),
        year => format!("{year:+05}-{month:02}-{day:02}"),
    }
}

/// Returns the day with this date: the inverse of [`date`].
fn of_date(text: &str) -> Option<i64> {
    let (rest, day) = text.rsplit_once('-')?;
    let (year, month) = rest.rsplit_once('-')?;
    let (year, month, day_of_month): (i64, i64, i64) =
        (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    // Timestamps do not reach later or earlier years.
    if !(1..=12).contains(&month) || !(1..=31).contains(&day_of_month) || year.unsigned_abs() > 1 << 40 {
        return None;
    }
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (period, of_period) = (years.div_euclid(400), years.rem_euclid(400));
    let in_period =
        365 * of_period + of_period / 4 - of_period / 100 + (153 * months + 2) / 5 + day_of_month - 1;
    let days = period * 146_097 + in_period - 719_468;
    // The date must be valid: only a valid date is the notation of its own day.
    let same = date(days);
    (same.trim_start_matches('+') == text.trim_start_matches('+')).then_some(days)
}

/// Returns the second of the day, and the nanoseconds: the inverse of [`time`].
fn of_time(text: &str) -> Option<(i64, i64)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok().filter(|part| *part >= 0));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 || fraction.len() > 9 {
        return None;
    }
    let nanos: i64 = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
    let leap = i64::from(second == 60);
    Some((3_600 * hour + 60 * minute + second - leap, leap * i64::from(SECOND) + nanos))
}

/// Returns the stored form of the date or time that is written as `text`: the inverse of [`moment`].
fn of_moment(name: &str, text: &str) -> Option<Dynamic> {
    let (signed, unsigned) =
        (|number: i64| Dynamic::Signed(number.into()), |number: i64| Dynamic::Unsigned(number as u128));
    let local = |text: &str| {
        let (date, time) = text.split_once(['T', ' '])?;
        Some((of_date(date)?, of_time(time)?))
    };
    let seconds = |day: i64, second: i64| day.checked_mul(DAY)?.checked_add(second);
    Some(match name {
        "date" => signed(of_date(text)?),
        "time" => {
            let (second, nanos) = of_time(text)?;
            Dynamic::List(vec![unsigned(second), unsigned(nanos)])
        }
        "datetime" => {
            let (day, (second, nanos)) = local(text)?;
            Dynamic::List(vec![signed(day), unsigned(second), unsigned(nanos)])
        }
        "timestamp" => {
            let (day, (second, nanos)) = local(text.strip_suffix('Z')?)?;
            Dynamic::List(vec![signed(seconds(day, second)?), unsigned(nanos)])
        }
        "offset datetime" => {
            let at = text.rfind(['+', '-'])?;
            let (day, (second, nanos)) = local(&text[..at])?;
            let (offset, _) = of_time(&text[at + 1..])?;
            let offset = if text[at..].starts_with('-') { -offset } else { offset };
            let seconds = seconds(day, second)?.checked_sub(offset)?;
            Dynamic::List(vec![signed(seconds), unsigned(nanos), signed(offset)])
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn both_ways(name: &str, stored_numbers: &[i64]) -> String {
        let list = stored_numbers.iter().map(|number| Dynamic::Signed((*number).into())).collect();
        let text = shown(name, Dynamic::List(list)).unwrap();
        let Dynamic::Text(text) = text else { panic!("{text:?}") };
        let again = stored(name, &Dynamic::Text(text.clone())).unwrap();
        assert_eq!(numbers(&again).unwrap(), stored_numbers, "{text}");
        text
    }

    #[test]
    fn moments_have_their_notation() {
        assert_eq!(both_ways("date", &[0]), "1970-01-01");
        assert_eq!(both_ways("date", &[-719_528]), "0000-01-01");
        assert_eq!(both_ways("date", &[-719_529]), "-0001-12-31");
        assert_eq!(both_ways("date", &[19_782]), "2024-02-29");
        assert_eq!(both_ways("date", &[2_932_897]), "+10000-01-01");
        assert_eq!(both_ways("time", &[45_296, 789_000_000]), "12:34:56.789");
        assert_eq!(both_ways("time", &[86_399, 1_500_000_000]), "23:59:60.5");
        let odd = Dynamic::List([45_296, 1_789_000_000].map(Dynamic::Unsigned).to_vec());
        assert_eq!(shown("time", odd.clone()), Ok(odd.clone()));
        assert_eq!(stored("time", &odd), Ok(odd));
        assert_eq!(both_ways("timestamp", &[-1, 999_999_999]), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(both_ways("datetime", &[19_782, 1, 0]), "2024-02-29T00:00:01");
        assert_eq!(both_ways("offset datetime", &[0, 0, 5_400]), "1970-01-01T01:30:00+01:30");
        assert_eq!(both_ways("offset datetime", &[0, 0, -1]), "1969-12-31T23:59:59-00:00:01");
        let is_one = |name, text: &str| stored(name, &Dynamic::Text(text.into())).is_ok();
        for wrong in ["2023-02-29", "2024-13-01", "2024-01-00", "", "x", "--", "99999999999999999999-01-01"] {
            assert!(!is_one("date", wrong), "{wrong}");
        }
        for wrong in ["24:00:00", "12:60:00", "12:00:61", "12:-1:00", "12:00:00.1234567890", "12"] {
            assert!(!is_one("time", wrong), "{wrong}");
        }
        assert!(!is_one("timestamp", "2024-02-29T00:00:01") && is_one("timestamp", "2024-02-29 00:00:01Z"));
        assert!(!is_one("uuid", "0123") && !is_one("ipv4", "::1") && is_one("ip", "::1"));
    }

    proptest! {
        #[test]
        fn notations_are_read_back(day: i32, seconds: i64, nanos in 0_i64..1_000_000_000, offset in -86_399_i64..86_400) {
            both_ways("date", &[day.into()]);
            both_ways("timestamp", &[seconds, nanos]);
            both_ways("datetime", &[day.into(), seconds.rem_euclid(DAY), nanos]);
            both_ways("offset datetime", &[seconds / 2, nanos, offset]);
        }

        #[test]
        fn no_text_is_harmful(text in "[-+0-9TZ: .]{0,30}", any in ".{0,20}") {
            for name in ["date", "time", "datetime", "timestamp", "offset datetime", "zoned datetime", "uuid", "ip", "socket address", "NonZero"] {
                for text in [&text, &any] {
                    let _ = stored(name, &Dynamic::Text(text.clone()));
                }
            }
        }
    }
}
