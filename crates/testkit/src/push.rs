//! A browser that is subscribed to Web Push: its keys, and the message that it reads.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::SystemRandom;

/// Keys of a subscription. They read one message.
pub struct PushBrowser {
    private: EphemeralPrivateKey,
    public: Vec<u8>,
    auth: [u8; 16],
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const LENGTH: usize>(key: &Prk, info: &[&[u8]]) -> [u8; LENGTH] {
    let mut output = [0; LENGTH];
    key.expand(info, Length(LENGTH)).expect("the length").fill(&mut output).expect("the length");
    output
}

impl Default for PushBrowser {
    fn default() -> Self {
        let private =
            EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).expect("random numbers");
        let public = private.compute_public_key().expect("a point").as_ref().to_vec();
        PushBrowser { private, public, auth: *b"sixteen bytes ok" }
    }
}

impl PushBrowser {
    /// Returns the keys `p256dh` and `auth` of the subscription.
    pub fn keys(&self) -> [String; 2] {
        [URL_SAFE_NO_PAD.encode(&self.public), URL_SAFE_NO_PAD.encode(self.auth)]
    }

    /// Decrypts a message of one record (RFC 8188 and 8291). Panics if it is not for this browser.
    pub fn read(self, body: &[u8]) -> String {
        let (salt, rest) = body.split_at(16);
        let (size, rest) = rest.split_at(4);
        assert!(u32::from_be_bytes(size.try_into().expect("four bytes")) as usize >= rest.len());
        let (length, rest) = rest.split_first().expect("the length of the key");
        let (sender, record) = rest.split_at(usize::from(*length));
        let theirs = UnparsedPublicKey::new(&ECDH_P256, sender);
        let shared = agree_ephemeral(self.private, &theirs, |secret| {
            Salt::new(HKDF_SHA256, &self.auth).extract(secret)
        });
        let shared = shared.expect("a point of P-256");
        let input: [u8; 32] = expand(&shared, &[b"WebPush: info\0", &self.public, sender]);
        let content = Salt::new(HKDF_SHA256, salt).extract(&input);
        let key: [u8; 16] = expand(&content, &[b"Content-Encoding: aes128gcm\0"]);
        let nonce: [u8; 12] = expand(&content, &[b"Content-Encoding: nonce\0"]);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).expect("a key"));
        let mut record = record.to_vec();
        let plain = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record);
        let plain = plain.expect("a message for this browser");
        let (last, text) = plain.split_last().expect("the delimiter");
        assert_eq!(*last, 2, "the delimiter of the last record");
        String::from_utf8(text.to_vec()).expect("UTF-8")
    }
}
