//! Types of other crates, behind a feature with the name of the crate. Types of different crates with the same meaning are stored in the same way, so
//! that a table of one can be opened as a table of the other.

// The features decide which of these imports are used.
#![allow(unused_imports)]

#[cfg(any(feature = "chrono", feature = "time", feature = "jiff"))]
use super::adapted::Instant;
use super::adapted::{both_named, named, persist_as, persist_named};
use super::key::{Key, KeyBytes, KeyRef};
use super::persist::{Fixed, Invalid, Persist, Stored};
use super::schema::Types;

/// The seconds of the day, and the nanoseconds.
#[cfg(any(feature = "chrono", feature = "time", feature = "jiff"))]
type Time = (u32, u32);

/// The days since 1970-01-01, and the fields of [`Time`].
#[cfg(any(feature = "chrono", feature = "time", feature = "jiff"))]
type DateTime = (i32, u32, u32);

/// Returns the nanoseconds since 1970, or `None` for a leap second. A leap second would be loaded as the second after it, which is another key.
#[cfg(any(feature = "time", feature = "jiff"))]
fn unix_nanos((seconds, nanos): Instant) -> Option<i128> {
    (nanos < 1_000_000_000).then(|| i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
}

/// Returns whether seconds and nanoseconds have the same sign, and the nanoseconds are less than a second.
#[cfg(any(feature = "chrono", feature = "time", feature = "jiff"))]
fn is_duration((seconds, nanos): (i64, i32)) -> bool {
    nanos.unsigned_abs() < 1_000_000_000 && seconds.signum() * i64::from(nanos.signum()) >= 0
}

#[cfg(feature = "uuid")]
both_named!(uuid::Uuid, "uuid", [u8; 16], |value| value.into_bytes(), |bytes| Some(uuid::Uuid::from_bytes(
    bytes
)));

#[cfg(feature = "bytes")]
mod of_bytes {
    use super::*;
    use crate::value::check::Checker;
    use crate::value::lists::{encode_slice, slice_bytes};
    use crate::value::owned::slices;
    use crate::value::transaction::{Control, Tx};
    use crate::value::values::put;
    use strandline_core::memory::PersistentAddress;

    slices!([] bytes::Bytes, u8);
}

#[cfg(feature = "chrono")]
mod of_chrono {
    use chrono::{
        DateTime as Moment, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc,
    };

    use super::*;

    const EPOCH: i32 = 719_163;

    fn days(date: NaiveDate) -> i32 {
        chrono::Datelike::num_days_from_ce(&date) - EPOCH
    }

    fn to_date(days: i32) -> Option<NaiveDate> {
        NaiveDate::from_num_days_from_ce_opt(days.checked_add(EPOCH)?)
    }

    fn of_time(time: NaiveTime) -> Time {
        (time.num_seconds_from_midnight(), time.nanosecond())
    }

    fn to_time((second, nanos): Time) -> Option<NaiveTime> {
        // `chrono` lets any second have the nanoseconds of a leap second, not only the last one of a minute.
        NaiveTime::from_num_seconds_from_midnight_opt(second, 0)?.with_nanosecond(nanos)
    }

    fn instant<Z: chrono::TimeZone>(time: &Moment<Z>) -> Instant {
        (time.timestamp(), time.timestamp_subsec_nanos())
    }

    fn to_instant((seconds, nanos): Instant) -> Option<Moment<Utc>> {
        Some(Moment::from_timestamp(seconds, 0)?.naive_utc().with_nanosecond(nanos)?.and_utc())
    }

    both_named!(NaiveDate, "date", i32, |value| days(*value), |days| to_date(days));
    both_named!(NaiveTime, "time", Time, |value| of_time(*value), |time| to_time(time));
    both_named!(
        NaiveDateTime,
        "datetime",
        DateTime,
        |value| {
            let (second, nanos) = of_time(value.time());
            (days(value.date()), second, nanos)
        },
        |stored| {
            let (days, second, nanos) = stored;
            to_date(days).zip(to_time((second, nanos))).map(|(date, time)| date.and_time(time))
        }
    );
    both_named!(Moment<Utc>, "timestamp", Instant, |value| instant(value), |stored| to_instant(stored));
    // The offset is not stored. The time zone of the machine that loads the value determines it.
    #[cfg(feature = "chrono-clock")]
    both_named!(Moment<chrono::Local>, "timestamp", Instant, |value| instant(value), |stored| to_instant(
        stored
    )
    .map(Into::into));
    persist_named!(
        Moment<FixedOffset>,
        "offset datetime",
        (i64, u32, i32),
        |value| {
            let (seconds, nanos) = instant(value);
            (seconds, nanos, value.offset().local_minus_utc())
        },
        |stored| {
            let (seconds, nanos, offset) = stored;
            let offset = FixedOffset::east_opt(offset);
            to_instant((seconds, nanos)).zip(offset).map(|(time, offset)| time.with_timezone(&offset))
        }
    );
    both_named!(
        TimeDelta,
        "signed duration",
        (i64, i32),
        |value| (value.num_seconds(), value.subsec_nanos()),
        |stored| {
            let seconds = TimeDelta::try_seconds(stored.0).filter(|_| is_duration(stored));
            seconds.and_then(|seconds| seconds.checked_add(&TimeDelta::nanoseconds(stored.1.into())))
        }
    );
}

#[cfg(feature = "time")]
mod of_time {
    use time::{Date, Duration, OffsetDateTime, PrimitiveDateTime, UtcDateTime, UtcOffset};

    use super::*;

    const EPOCH: i32 = 2_440_588;

    fn to_date(days: i32) -> Option<Date> {
        Date::from_julian_day(days.checked_add(EPOCH)?).ok()
    }

    fn of_time(time: time::Time) -> Time {
        let (hour, minute, second, nanos) = time.as_hms_nano();
        (3_600 * u32::from(hour) + 60 * u32::from(minute) + u32::from(second), nanos)
    }

    fn to_time((second, nanos): Time) -> Option<time::Time> {
        let hour = u8::try_from(second / 3_600).ok()?;
        time::Time::from_hms_nano(hour, (second / 60 % 60) as u8, (second % 60) as u8, nanos).ok()
    }

    both_named!(Date, "date", i32, |value| value.to_julian_day() - EPOCH, |days| to_date(days));
    both_named!(time::Time, "time", Time, |value| of_time(*value), |stored| to_time(stored));
    both_named!(
        PrimitiveDateTime,
        "datetime",
        DateTime,
        |value| {
            let (second, nanos) = of_time(value.time());
            (value.date().to_julian_day() - EPOCH, second, nanos)
        },
        |stored| {
            let (days, second, nanos) = stored;
            to_date(days).zip(to_time((second, nanos))).map(|(date, time)| PrimitiveDateTime::new(date, time))
        }
    );
    both_named!(
        UtcDateTime,
        "timestamp",
        Instant,
        |value| (value.unix_timestamp(), value.nanosecond()),
        |stored| unix_nanos(stored).and_then(|nanos| UtcDateTime::from_unix_timestamp_nanos(nanos).ok())
    );
    persist_named!(
        OffsetDateTime,
        "offset datetime",
        (i64, u32, i32),
        |value| (value.unix_timestamp(), value.nanosecond(), value.offset().whole_seconds()),
        |stored| {
            let (seconds, nanos, offset) = stored;
            // The local time must be within the range of years. The same moment in UTC need not be.
            let local = seconds.checked_add(offset.into()).and_then(|local| unix_nanos((local, nanos)));
            let local = local.and_then(|nanos| UtcDateTime::from_unix_timestamp_nanos(nanos).ok());
            let offset = UtcOffset::from_whole_seconds(offset).ok();
            local.zip(offset).map(|(local, offset)| {
                PrimitiveDateTime::new(local.date(), local.time()).assume_offset(offset)
            })
        }
    );
    both_named!(
        Duration,
        "signed duration",
        (i64, i32),
        |value| (value.whole_seconds(), value.subsec_nanoseconds()),
        |stored| is_duration(stored).then(|| Duration::new(stored.0, stored.1))
    );
}

#[cfg(feature = "jiff")]
mod of_jiff {
    use jiff::civil::{self, Date};
    use jiff::tz::{Offset, TimeZone};
    use jiff::{SignedDuration, Timestamp, ZonedDateTime};

    use super::*;

    const EPOCH: Date = Date::constant(1970, 1, 1);
    const DAY: i64 = 86_400;

    fn days(date: Date) -> i32 {
        (date.duration_since(EPOCH).as_secs() / DAY) as i32
    }

    fn to_date(days: i32) -> Option<Date> {
        EPOCH.checked_add(SignedDuration::from_secs(DAY * i64::from(days))).ok()
    }

    fn of_time(time: civil::Time) -> Time {
        let [hour, minute, second] = [time.hour(), time.minute(), time.second()].map(|part| part as u32);
        (3_600 * hour + 60 * minute + second, time.subsec_nanosecond() as u32)
    }

    fn to_time((second, nanos): Time) -> Option<civil::Time> {
        let hour = i8::try_from(second / 3_600).ok()?;
        let nanos = i32::try_from(nanos).ok()?;
        civil::Time::new(hour, (second / 60 % 60) as i8, (second % 60) as i8, nanos).ok()
    }

    fn instant(time: Timestamp) -> Instant {
        let nanos = time.as_nanosecond();
        (nanos.div_euclid(1_000_000_000) as i64, nanos.rem_euclid(1_000_000_000) as u32)
    }

    both_named!(Date, "date", i32, |value| days(*value), |days| to_date(days));
    both_named!(civil::Time, "time", Time, |value| of_time(*value), |stored| to_time(stored));
    both_named!(
        civil::DateTime,
        "datetime",
        DateTime,
        |value| {
            let (second, nanos) = of_time(value.time());
            (days(value.date()), second, nanos)
        },
        |stored| {
            let (days, second, nanos) = stored;
            to_date(days).zip(to_time((second, nanos))).map(|(date, time)| date.to_datetime(time))
        }
    );
    fn to_timestamp(stored: Instant) -> Option<Timestamp> {
        unix_nanos(stored).and_then(|nanos| Timestamp::from_nanosecond(nanos).ok())
    }

    both_named!(Timestamp, "timestamp", Instant, |value| instant(*value), |stored| to_timestamp(stored));

    /// A moment, the offset in seconds, and the name of the zone in the IANA database, if it has one. If there is no name, or the program that loads
    /// the value does not know the name, the value gets the offset.
    type InZone = (i64, u32, i32, Option<String>);

    fn to_zoned((seconds, nanos, offset, zone): InZone) -> Option<ZonedDateTime> {
        let moment = to_timestamp((seconds, nanos))?;
        let zone = match zone.and_then(|name| TimeZone::get(&name).ok()) {
            Some(zone) => zone,
            None => TimeZone::fixed(Offset::from_seconds(offset).ok()?),
        };
        Some(moment.to_zoned_datetime(zone))
    }

    persist_as!(
        [] ZonedDateTime, "zoned datetime", InZone,
        |value| {
            let (seconds, nanos) = instant(value.timestamp());
            (seconds, nanos, value.offset().seconds(), value.time_zone().iana_name().map(str::to_owned))
        },
        |stored| to_zoned(stored),
        layout: named("zoned datetime", <InZone as Persist<'p>>::LAYOUT),
        describe: |_types| "zoned datetime".into()
    );
    both_named!(
        SignedDuration,
        "signed duration",
        (i64, i32),
        |value| (value.as_secs(), value.subsec_nanos()),
        |stored| is_duration(stored).then(|| SignedDuration::new(stored.0, stored.1))
    );
}
