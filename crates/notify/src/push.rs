//! Web Push: messages that only the subscribed browser can read (RFC 8291), from a sender that its push service can
//! recognize (RFC 8292).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use http_body_util::Full;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

use crate::target::Address;

/// Time for which a push service keeps a message for a browser that is offline, in seconds.
const TTL: u32 = 3600;
/// Lifetime of the signature of a request, in seconds. Services accept at most a day.
const TOKEN_LIFETIME: u64 = 12 * 3600;
/// Size of the only record. Messages are far shorter.
const RECORD: u32 = 4096;
/// Maximum length of a message in bytes, which every push service must accept.
const MAX_MESSAGE: usize = 3992;
/// Length of an uncompressed point of P-256.
const POINT: usize = 65;
/// Maximum length of an endpoint's address in bytes.
const MAX_ENDPOINT: usize = 2048;
/// Contact in the signature if the hub has no public address. Some services refuse local ones.
const CONTACT: &str = env!("CARGO_PKG_REPOSITORY");

/// Key by which push services recognize a hub (VAPID). A subscription works with one key only.
pub struct PushKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl fmt::Debug for PushKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PushKey({})", self.public())
    }
}

impl PushKey {
    /// Generates a key, as a text that must be kept secret.
    ///
    /// ```
    /// use switchboard_notify::PushKey;
    ///
    /// let secret = PushKey::generate()?;
    /// let key = PushKey::parse(&secret)?;
    /// assert_eq!(key.public().len(), 87);
    /// assert!(PushKey::parse("secret").is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn generate() -> Result<String, String> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| "the system has no random numbers")?;
        Ok(URL_SAFE_NO_PAD.encode(document.as_ref()))
    }

    /// Parses a key that [`PushKey::generate`] has returned.
    pub fn parse(secret: &str) -> Result<Self, String> {
        let invalid = "the key for Web Push is damaged";
        let document = URL_SAFE_NO_PAD.decode(secret).map_err(|_| invalid)?;
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &document, &random)
            .map_err(|_| invalid)?;
        Ok(PushKey { pair, random })
    }

    /// Returns the public key in base64url, as browsers need it to subscribe.
    pub fn public(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref())
    }

    /// Returns the value of `Authorization` for a push service.
    fn authorization(&self, audience: &str, contact: &str, seconds: u64) -> Result<String, String> {
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(json!({"typ": "JWT", "alg": "ES256"}));
        let claims = part(json!({"aud": audience, "exp": seconds + TOKEN_LIFETIME, "sub": contact}));
        let signed = format!("{head}.{claims}");
        let signature = self.pair.sign(&self.random, signed.as_bytes());
        let signature = signature.map_err(|_| "cannot sign the request to the push service")?;
        Ok(format!("vapid t={signed}.{}, k={}", URL_SAFE_NO_PAD.encode(signature), self.public()))
    }
}

/// A browser's subscription to messages.
#[derive(Clone)]
pub struct Subscription {
    /// Address of the browser at its push service. It is secret.
    pub(crate) endpoint: Address,
    /// Public key of the browser, as an uncompressed point.
    public: [u8; POINT],
    /// Secret that the browser shares with the sender.
    auth: [u8; 16],
    key: Arc<PushKey>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Subscription({})", self.endpoint.shown())
    }
}

impl PartialEq for Subscription {
    fn eq(&self, other: &Self) -> bool {
        self.endpoint == other.endpoint && self.public == other.public && self.auth == other.auth
    }
}

impl Eq for Subscription {}

/// Reason why a subscription cannot be used. It does not contain its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSubscription(pub String);

impl fmt::Display for InvalidSubscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "invalid push subscription: {}", self.0)
    }
}

impl std::error::Error for InvalidSubscription {}

impl Subscription {
    /// Creates a subscription from what a browser reports: the endpoint, and the keys `p256dh` and `auth` in base64url.
    ///
    /// The address comes from a browser, so it could be any address that this machine can reach. The caller decides which
    /// push services are contacted.
    pub fn new(
        endpoint: &str,
        p256dh: &str,
        auth: &str,
        key: Arc<PushKey>,
    ) -> Result<Self, InvalidSubscription> {
        let invalid = |reason: &str| InvalidSubscription(reason.to_owned());
        if endpoint.len() > MAX_ENDPOINT {
            return Err(invalid("the endpoint is too long"));
        }
        let endpoint = Address::parse(endpoint).map_err(InvalidSubscription)?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
        let public = decode(p256dh).ok().and_then(|key| <[u8; POINT]>::try_from(key).ok());
        let public = public.filter(|point| point[0] == 4);
        let public = public.ok_or_else(|| invalid("p256dh must be an uncompressed point of P-256"))?;
        let auth = decode(auth).ok().and_then(|auth| <[u8; 16]>::try_from(auth).ok());
        let auth = auth.ok_or_else(|| invalid("auth must have 16 bytes"))?;
        // A point that is not on the curve is found now, not at the first question.
        let subscription = Subscription { endpoint, public, auth, key };
        subscription.encrypt(b"").map_err(InvalidSubscription)?;
        Ok(subscription)
    }

    /// Returns the origin of the push service, such as `https://fcm.googleapis.com`.
    pub fn service(&self) -> String {
        self.endpoint.shown()
    }

    /// Returns the request that delivers a message.
    pub(crate) fn request(&self, push: &Push<'_>, hub: &str) -> Result<Request<Full<Bytes>>, String> {
        let Push { message, topic, is_urgent, seconds } = push;
        if message.len() > MAX_MESSAGE {
            return Err("the message is too long for Web Push".to_owned());
        }
        let contact = if hub.starts_with("https://") { hub } else { CONTACT };
        let authorization = self.key.authorization(&self.endpoint.shown(), contact, *seconds)?;
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| "invalid header".to_owned());
        let mut authorization = value(&authorization)?;
        authorization.set_sensitive(true);
        let mut request = Request::new(Full::new(Bytes::from(self.encrypt(message.as_bytes())?)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.uri().clone();
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, authorization);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("aes128gcm"));
        headers.insert("ttl", TTL.into());
        headers.insert("urgency", HeaderValue::from_static(if *is_urgent { "high" } else { "normal" }));
        // At most 32 characters. A later message with the same topic replaces one that was not delivered.
        headers.insert("topic", value(topic)?);
        Ok(request)
    }

    /// Encrypts a message for the browser.
    fn encrypt(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let random = SystemRandom::new();
        let no_random = "the system has no random numbers";
        let mut salt = [0; 16];
        random.fill(&mut salt).map_err(|_| no_random)?;
        let ours = EphemeralPrivateKey::generate(&ECDH_P256, &random).map_err(|_| no_random)?;
        let our_public = ours.compute_public_key().map_err(|_| no_random)?;
        let our_public = our_public.as_ref();
        let theirs = UnparsedPublicKey::new(&ECDH_P256, &self.public[..]);
        let keys = agree_ephemeral(ours, &theirs, |secret| {
            ContentKeys::derive(secret, &self.auth, &self.public, our_public, &salt)
        })
        .map_err(|_| "p256dh is not a point of P-256")?;
        let mut body = Vec::with_capacity(16 + 4 + 1 + POINT + message.len() + 1 + AES_128_GCM.tag_len());
        body.extend(salt);
        body.extend(RECORD.to_be_bytes());
        body.push(POINT as u8);
        body.extend(our_public);
        let keys = keys.ok_or("cannot derive the keys of a message")?;
        body.extend(keys.seal(message).ok_or("cannot encrypt a message")?);
        Ok(body)
    }
}

/// A message to be delivered.
pub(crate) struct Push<'a> {
    pub(crate) message: &'a str,
    /// Key by which a later message replaces this one.
    pub(crate) topic: &'a str,
    pub(crate) is_urgent: bool,
    /// The current time in seconds since 1970.
    pub(crate) seconds: u64,
}

/// Length of a derived key.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Key and nonce of one message.
struct ContentKeys {
    key: [u8; 16],
    nonce: [u8; 12],
}

impl ContentKeys {
    /// Derives the keys as RFC 8291 describes in section 3.4. `theirs` is the public key of the browser, `ours` that of the
    /// message.
    fn derive(secret: &[u8], auth: &[u8], theirs: &[u8], ours: &[u8], salt: &[u8]) -> Option<Self> {
        let shared = Salt::new(HKDF_SHA256, auth).extract(secret);
        let mut input = [0; 32];
        expand(&shared, &[b"WebPush: info\0", theirs, ours], &mut input)?;
        let content = Salt::new(HKDF_SHA256, salt).extract(&input);
        let mut keys = ContentKeys { key: [0; 16], nonce: [0; 12] };
        expand(&content, &[b"Content-Encoding: aes128gcm\0"], &mut keys.key)?;
        expand(&content, &[b"Content-Encoding: nonce\0"], &mut keys.nonce)?;
        Some(keys)
    }

    /// Encrypts the last and only record, without padding.
    fn seal(&self, message: &[u8]) -> Option<Vec<u8>> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &self.key).ok()?);
        let mut record = message.to_vec();
        // The delimiter of the last record.
        record.push(2);
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record).ok()?;
        Some(record)
    }
}

fn expand(key: &Prk, info: &[&[u8]], output: &mut [u8]) -> Option<()> {
    key.expand(info, Length(output.len())).ok()?.fill(output).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey as PublicKey};

    use super::*;

    fn decode(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    #[test]
    fn keys_and_message_are_those_of_the_example_in_rfc_8291() {
        let keys = ContentKeys::derive(
            &decode("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs"),
            &decode("BTBZMqHH6r4Tts7J_aSIgg"),
            &decode(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            ),
            &decode(
                "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
            ),
            &decode("DGv6ra1nlYgDCS1FRnbzlw"),
        )
        .unwrap();
        assert_eq!(URL_SAFE_NO_PAD.encode(keys.key), "oIhVW04MRdy2XN9CiKLxTg");
        assert_eq!(URL_SAFE_NO_PAD.encode(keys.nonce), "4h_95klXJ5E_qnoN");
        let body = decode(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6P\
             Bru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
        );
        let record = keys.seal(b"When I grow up, I want to be a watermelon").unwrap();
        assert_eq!(record, body[16 + 4 + 1 + POINT..]);
    }

    fn key() -> Arc<PushKey> {
        Arc::new(PushKey::parse(&PushKey::generate().unwrap()).unwrap())
    }

    #[test]
    fn the_signature_names_the_service_and_the_hub_for_half_a_day() {
        let key = key();
        let value = key.authorization("https://push.example.org", "https://hub.example.org", 1000).unwrap();
        let (token, public) = value.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        assert_eq!(public, key.public());
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let known = PublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(public));
        known.verify(signed.as_bytes(), &decode(signature)).unwrap();
        let parts: Vec<serde_json::Value> =
            signed.split('.').map(|part| serde_json::from_slice(&decode(part)).unwrap()).collect();
        assert_eq!(parts[0], json!({"typ": "JWT", "alg": "ES256"}));
        let claims = json!({"aud": "https://push.example.org", "exp": 1000 + 12 * 3600, "sub": "https://hub.example.org"});
        assert_eq!(parts[1], claims);
    }

    #[test]
    fn subscriptions_of_browsers_are_checked_and_never_displayed() {
        let point = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        let auth = "BTBZMqHH6r4Tts7J_aSIgg";
        let address = "https://push.example.org/send/SECRET";
        let of = |address: &str, point: &str, auth: &str| Subscription::new(address, point, auth, key());
        let subscription = of(address, point, auth).unwrap();
        assert_eq!(format!("{subscription:?}"), "Subscription(https://push.example.org)");
        assert!(of(address, &format!("{point}="), &format!("{auth}==")).is_ok(), "some browsers pad");
        let off_curve = URL_SAFE_NO_PAD.encode([&[4][..], &[7; 64]].concat());
        let compressed = URL_SAFE_NO_PAD.encode([&[2][..], &[7; 32]].concat());
        let long = format!("{address}{}", "x".repeat(5000));
        for (address, point, auth) in [
            ("not an address", point, auth),
            ("file:///etc/passwd", point, auth),
            ("https://user:SECRET@push.example.org/", point, auth),
            (&long, point, auth),
            (address, "SECRET", auth),
            (address, &compressed, auth),
            (address, &off_curve, auth),
            (address, point, "BTBZ"),
            (address, point, ""),
        ] {
            let words = of(address, point, auth).unwrap_err().to_string();
            assert!(!words.contains("SECRET"), "{words}");
        }
    }

    #[test]
    fn messages_are_limited_and_each_has_its_own_keys() {
        let point = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        let subscription =
            Subscription::new("https://push.example.org/x", point, "BTBZMqHH6r4Tts7J_aSIgg", key()).unwrap();
        assert_ne!(subscription.encrypt(b"a").unwrap(), subscription.encrypt(b"a").unwrap());
        let long = "x".repeat(MAX_MESSAGE + 1);
        let push = Push { message: &long, topic: "t", is_urgent: true, seconds: 0 };
        assert!(subscription.request(&push, "https://hub.example.org").is_err());
    }
}
