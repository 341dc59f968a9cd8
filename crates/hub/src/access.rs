//! Authentication of requests: bearer tokens, and the rate limit for failed logins.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Maximum number of failed logins from one address within [`WINDOW`].
const MAX_FAILURES: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of addresses that are counted separately within one [`WINDOW`]. All others share one counter.
const MAX_ADDRESSES: usize = 4096;

/// Returns the token of a request: `Authorization: Bearer TOKEN`. `None` if the header is missing, malformed or
/// repeated.
///
/// ```
/// let mut headers = http::HeaderMap::new();
/// assert_eq!(switchboard_hub::bearer_token(&headers), None);
/// headers.insert("authorization", http::HeaderValue::from_static("Bearer sb_abc"));
/// assert_eq!(switchboard_hub::bearer_token(&headers), Some("sb_abc"));
/// ```
pub fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim_start();
    let is_one_word = !token.is_empty() && !token.contains([' ', '\t', ',']);
    (scheme.eq_ignore_ascii_case("bearer") && is_one_word).then_some(token)
}

/// Compares two secrets in constant time. The duration reveals only whether their lengths are equal, and the length of
/// a token is public.
pub fn constant_time_eq(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other));
    // Prevents the compiler from stopping at the first difference.
    one.len() == other.len() && std::hint::black_box(differs) == 0
}

/// Rate limit for failed logins: counts wrong tokens per address, in bounded memory. It is not consulted for valid
/// tokens.
///
/// ```
/// use std::time::{Duration, Instant};
/// use switchboard_hub::LoginRateLimit;
///
/// let (limit, from, now) = (LoginRateLimit::default(), "192.0.2.7".parse().unwrap(), Instant::now());
/// for _ in 0..10 {
///     assert_eq!(limit.record_failure(from, now), Ok(()));
/// }
/// assert_eq!(limit.record_failure(from, now), Err(Duration::from_secs(60)));
/// ```
#[derive(Debug, Default)]
pub struct LoginRateLimit {
    inner: Mutex<Inner>,
}

/// Two generations of addresses. When the younger one is [`WINDOW`] old, the older one is dropped, so expiry never
/// scans all addresses.
#[derive(Debug, Default)]
struct Inner {
    since: Option<Instant>,
    younger: HashMap<Address, Failures>,
    older: HashMap<Address, Failures>,
    /// Shared counter for addresses above [`MAX_ADDRESSES`].
    others: Failures,
}

/// Times of the last failed logins, in order.
type Failures = VecDeque<Instant>;

/// A client address. IPv6 clients usually control a whole /64 network, so they are counted by network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Address {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Address::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Address::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

impl LoginRateLimit {
    /// Records a failed login. Fails with the time to wait if the address has reached the rate limit.
    pub fn record_failure(&self, from: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut inner = self.lock();
        inner.age(now);
        let attempts = inner.of(from.into());
        while attempts.front().is_some_and(|first| now.saturating_duration_since(*first) >= WINDOW) {
            attempts.pop_front();
        }
        match attempts.front() {
            Some(first) if attempts.len() >= MAX_FAILURES => {
                Err(WINDOW - now.saturating_duration_since(*first))
            }
            _ => {
                attempts.push_back(now);
                Ok(())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in another thread leaves no partial update.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Drops the older generation when the younger one has reached the window.
    fn age(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= WINDOW {
            self.older = std::mem::take(&mut self.younger);
            self.since = Some(now);
        }
    }

    /// Returns the counter of an address.
    fn of(&mut self, address: Address) -> &mut Failures {
        let is_known = self.younger.contains_key(&address);
        if !is_known && self.younger.len() >= MAX_ADDRESSES {
            return match self.older.get_mut(&address) {
                Some(attempts) => attempts,
                None => &mut self.others,
            };
        }
        let before = if is_known { None } else { self.older.remove(&address) };
        self.younger.entry(address).or_insert_with(|| before.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_bearer_token_is_one_word() {
        let read = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            bearer_token(&headers).map(str::to_owned)
        };
        for value in ["Bearer sb_a-b_c.d~e+/=", "bearer sb_a-b_c.d~e+/=", "BEARER   sb_a-b_c.d~e+/= "] {
            assert_eq!(read(&[value]).as_deref(), Some("sb_a-b_c.d~e+/="), "{value:?}");
        }
        for value in
            ["", "Bearer", "Bearer ", "sb_a", "Basic sb_a", "Bearer a b", "Bearer a, Bearer b", "Bearersb_a"]
        {
            assert_eq!(read(&[value]), None, "{value:?}");
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&["Bearer a", "Bearer a"]), None, "which of them would be meant?");
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_bytes(b"Bearer \xff").unwrap());
        assert_eq!(bearer_token(&headers), None);
    }

    #[test]
    fn secrets_are_compared() {
        assert!(constant_time_eq("", "") && constant_time_eq("sb_abc", "sb_abc"));
        for (one, other) in [("sb_abc", "sb_abd"), ("sb_abc", "sb_ab"), ("", "a"), ("a", ""), ("ab", "ba")] {
            assert!(!constant_time_eq(one, other), "{one:?} {other:?}");
        }
    }

    fn v4(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    /// Returns how many of these attempts are accepted.
    fn accepted(limit: &LoginRateLimit, from: IpAddr, now: Instant, tries: usize) -> usize {
        (0..tries).filter(|_| limit.record_failure(from, now).is_ok()).count()
    }

    #[test]
    fn ten_failures_in_any_minute_reach_the_rate_limit() {
        let (limit, start) = (LoginRateLimit::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // One every five seconds, so that generations change in between.
        for attempt in 0..10 {
            assert_eq!(limit.record_failure(v4(1), at(5 * attempt)), Ok(()), "{attempt}");
        }
        assert_eq!(limit.record_failure(v4(1), at(50)), Err(Duration::from_secs(10)));
        assert_eq!(limit.record_failure(v4(1), at(59)), Err(Duration::from_secs(1)));
        // Refused attempts do not count: the first one expires after a minute, then the second.
        assert_eq!(limit.record_failure(v4(1), at(60)), Ok(()));
        assert_eq!(limit.record_failure(v4(1), at(60)), Err(Duration::from_secs(5)));
        assert_eq!(limit.record_failure(v4(1), at(65)), Ok(()));
        assert_eq!(accepted(&limit, v4(1), at(10_000), 50), 10);
        // Other addresses are not affected.
        assert_eq!(limit.record_failure(v4(2), at(10_000)), Ok(()));
    }

    #[test]
    fn a_clock_that_goes_back_does_not_extend_the_rate_limit() {
        let (limit, now) = (LoginRateLimit::default(), Instant::now() + Duration::from_secs(1000));
        assert_eq!(accepted(&limit, v4(1), now, 11), 10);
        assert_eq!(
            limit.record_failure(v4(1), now.checked_sub(Duration::from_secs(500)).unwrap()),
            Err(WINDOW)
        );
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_mapped_ipv4_as_ipv4() {
        let (limit, now) = (LoginRateLimit::default(), Instant::now());
        let v6 = |network: u16, process: u16| {
            IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, network, process, 0, 0, process))
        };
        for process in 0..10 {
            assert_eq!(limit.record_failure(v6(1, process), now), Ok(()));
        }
        assert!(limit.record_failure(v6(1, 99), now).is_err());
        assert_eq!(limit.record_failure(v6(2, 1), now), Ok(()));
        let mapped = |number: u32| IpAddr::from(Ipv4Addr::from(number).to_ipv6_mapped());
        assert_eq!(accepted(&limit, mapped(7), now, 10), 10);
        assert!(limit.record_failure(v4(7), now).is_err());
        assert_eq!(limit.record_failure(mapped(8), now), Ok(()));
    }

    #[test]
    fn many_addresses_use_bounded_memory_and_get_no_extra_attempts() {
        let (limit, start) = (LoginRateLimit::default(), Instant::now());
        assert_eq!(accepted(&limit, v4(0), start, 20), 10);
        for round in 0..3_u64 {
            let now = start + WINDOW * round as u32 + Duration::from_secs(30);
            let through: usize = (1..100_000).map(|number| accepted(&limit, v4(number), now, 1)).sum();
            assert!(through <= MAX_ADDRESSES + MAX_FAILURES, "{through}");
            let inner = limit.lock();
            assert!(inner.younger.len() <= MAX_ADDRESSES && inner.older.len() <= MAX_ADDRESSES);
            assert!(inner.others.len() <= MAX_FAILURES);
            assert!(inner.younger.values().all(|attempts| attempts.len() <= MAX_FAILURES));
            drop(inner);
            if round == 0 {
                // A flood of other addresses does not displace an address that is already counted.
                assert!(limit.record_failure(v4(0), now).is_err());
            }
        }
    }
}
