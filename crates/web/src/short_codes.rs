//! Short codes that people type into a device without a camera.

use std::time::{Duration, Instant};

use switchboard_hub::Identity;

/// Characters of a code, without those that look alike.
const ALPHABET: &[u8; 30] = b"23456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Number of characters of a code.
const LENGTH: usize = 8;
/// Lifetime of a code.
const LIFETIME: Duration = Duration::from_secs(120);
/// Number of wrong codes after which all codes end.
const MAX_WRONG: u32 = 5;
/// Maximum number of codes. The oldest are dropped.
const MAX_CODES: usize = 16;

struct ShortCode {
    text: String,
    who: Identity,
    since: Instant,
}

/// The codes that are valid at the moment.
#[derive(Default)]
pub(crate) struct ShortCodes {
    codes: Vec<ShortCode>,
    wrong: u32,
}

impl ShortCodes {
    /// Creates a code that signs in one browser.
    pub(crate) fn create(&mut self, who: Identity, now: Instant) -> Result<String, getrandom::Error> {
        let text = random_text()?;
        self.expire(now);
        if self.codes.len() >= MAX_CODES {
            self.codes.remove(0);
        }
        self.codes.push(ShortCode { text: text.clone(), who, since: now });
        Ok(text)
    }

    /// Returns a typed code in its usual form; `None` if the text is something else, such as the code of a link.
    pub(crate) fn parse(typed: &str) -> Option<String> {
        let text: String = typed
            .chars()
            .filter(|letter| !matches!(letter, ' ' | '-'))
            .map(|letter| letter.to_ascii_uppercase())
            .take(LENGTH + 1)
            .collect();
        let is_code = text.len() == LENGTH && text.bytes().all(|letter| ALPHABET.contains(&letter));
        is_code.then_some(text)
    }

    /// Redeems a code. After too many wrong ones, all codes end.
    pub(crate) fn redeem(
        &mut self,
        offered: &str,
        now: Instant,
        is_equal: impl Fn(&str, &str) -> bool,
    ) -> Option<Identity> {
        self.expire(now);
        if let Some(place) = self.codes.iter().position(|code| is_equal(&code.text, offered)) {
            self.wrong = 0;
            return Some(self.codes.remove(place).who);
        }
        self.wrong += 1;
        if self.wrong >= MAX_WRONG {
            self.codes.clear();
            self.wrong = 0;
        }
        None
    }

    /// Removes the codes of a user.
    pub(crate) fn forget(&mut self, is_other: impl Fn(&Identity) -> bool) {
        self.codes.retain(|code| is_other(&code.who));
    }

    fn expire(&mut self, now: Instant) {
        self.codes.retain(|code| now.saturating_duration_since(code.since) <= LIFETIME);
        if self.codes.is_empty() {
            self.wrong = 0;
        }
    }
}

/// Returns random characters of the alphabet, each with the same probability.
fn random_text() -> Result<String, getrandom::Error> {
    let mut text = String::new();
    while text.len() < LENGTH {
        let mut byte = [0];
        getrandom::fill(&mut byte)?;
        // 240 is the largest multiple of 30 in a byte: above it, the first characters would be more frequent.
        if let Some(letter) = ALPHABET.get(usize::from(byte[0]) % ALPHABET.len()).filter(|_| byte[0] < 240) {
            text.push(char::from(*letter));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redeem(codes: &mut ShortCodes, code: &str, now: Instant) -> bool {
        codes.redeem(code, now, |one, other| one == other).is_some()
    }

    #[test]
    fn a_code_works_once_and_for_two_minutes() {
        let (mut codes, now) = (ShortCodes::default(), Instant::now());
        let create = |codes: &mut ShortCodes| codes.create(crate::local_user(), now).unwrap();
        let (first, second) = (create(&mut codes), create(&mut codes));
        assert_ne!(first, second);
        assert!(redeem(&mut codes, &first, now));
        assert!(!redeem(&mut codes, &first, now), "the second time");
        assert!(!redeem(&mut codes, &second, now + LIFETIME + Duration::from_secs(1)), "late");
    }

    #[test]
    fn five_wrong_codes_end_all_codes() {
        let (mut codes, now) = (ShortCodes::default(), Instant::now());
        let good = codes.create(crate::local_user(), now).unwrap();
        for _ in 0..4 {
            assert!(!redeem(&mut codes, "22222222", now));
        }
        assert!(redeem(&mut codes, &good, now), "four are not too many");
        let good = codes.create(crate::local_user(), now).unwrap();
        for _ in 0..5 {
            assert!(!redeem(&mut codes, "22222222", now));
        }
        assert!(!redeem(&mut codes, &good, now));
    }

    #[test]
    fn codes_are_read_as_people_type_them() {
        assert_eq!(ShortCodes::parse(" abcd-efgh ").as_deref(), Some("ABCDEFGH"));
        for wrong in ["", "ABCDEFG", "ABCDEFGHJ", "ABCDEFGO", "0123456789abcdef0123456789abcdef", "ÄBCDEFGH"]
        {
            assert_eq!(ShortCodes::parse(wrong), None, "{wrong}");
        }
        let code = ShortCodes::default().create(crate::local_user(), Instant::now()).unwrap();
        assert_eq!(ShortCodes::parse(&code), Some(code.clone()));
    }

    #[test]
    fn the_number_of_codes_is_limited() {
        let (mut codes, now) = (ShortCodes::default(), Instant::now());
        for _ in 0..100 {
            codes.create(crate::local_user(), now).unwrap();
        }
        assert_eq!(codes.codes.len(), MAX_CODES);
    }
}
