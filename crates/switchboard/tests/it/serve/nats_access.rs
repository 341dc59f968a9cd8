//! Authentication at NATS servers, and the error messages.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use switchboard_testkit::NatsServer;

use super::block_on;
use super::hub::{Client, Hub};
use super::nats::place_with_server;
use crate::agent_program::Place;
use crate::interop::SWITCHBOARD;
use crate::program::Run;

/// The credentials are in this variable if no file is given.
const VARIABLE: &str = "SWITCHBOARD_LOG_CREDENTIALS";

/// Returns the command of a hub that must not start.
fn command(place: &Place, log: &str, more: &[&str]) -> Command {
    let store = place.home().join("refused.sqlite3");
    let store = store.to_str().unwrap();
    let mut command =
        place.command(&["serve", "--listen", "127.0.0.1:0", "--store", store, "--session-log", log]);
    command.args(more).arg("demo");
    command
}

/// Returns the error message of a hub that does not start.
fn refused(place: &Place, log: &str, more: &[&str]) -> String {
    said(place.run_command(command(place, log, more)))
}

fn said(run: Run) -> String {
    assert_eq!((run.code, &*run.stdout), (1, ""), "{}", run.stderr);
    run.stderr
}

fn tls(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tls").join(name).to_str().unwrap().to_owned()
}

/// Uses a session of a hub from its beginning to its end.
async fn use_session(hub: &Hub, place: &Place) {
    let mut client = hub.client(2).await;
    let session = client.new_session(place).await;
    client.prompt(&session, "hello").await;
    assert!(!super::text(&client.until_idle().await).is_empty());
    delete(&mut client, &session).await;
}

async fn delete(client: &mut Client, session: &str) {
    let deleted = client.ask("session/delete", json!({"sessionId": session})).await;
    assert!(deleted.get("error").is_none(), "{deleted}");
}

#[test]
fn a_secure_connection_needs_who_signed_the_certificate() {
    let (certificate, key) = (tls("certificate.pem"), tls("key.pem"));
    let arguments = ["--jetstream", "--tls", "--tlscert", &certificate, "--tlskey", &key];
    let Some((place, server)) = place_with_server(&arguments) else { return };
    let authority = tls("authority.pem");
    let secure = format!("tls://127.0.0.1:{}", server.port());
    for address in [secure.clone(), format!("tls://localhost:{}", server.port()), server.address()] {
        let hub = Hub::start(&place, &["--session-log", &address, "--session-log-ca", &authority, "demo"]);
        block_on(use_session(&hub, &place));
        assert_eq!(hub.end(), Some(0));
    }
    // Also if the address does not require it, because the server does.
    for address in [secure.clone(), server.address()] {
        assert_eq!(
            refused(&place, &address, &[]),
            format!(
                "switchboard: no secure connection to the NATS server at {address}: IO error: invalid peer certificate: UnknownIssuer\n\
                 \x20 hint: pass the certificate of its authority with --session-log-ca FILE; for a server without TLS use nats://\n"
            )
        );
    }
    // A certificate for another name is refused.
    let elsewhere = format!("tls://127.0.0.2:{}", server.port());
    let text = refused(&place, &elsewhere, &["--session-log-ca", &authority]);
    assert!(text.contains(&format!("at {elsewhere}")), "{text}");
    assert_eq!(
        refused(&place, &secure, &["--session-log-ca", &key]),
        format!(
            "switchboard: cannot read certificates from {key}: it has none\n\
             \x20 hint: --session-log-ca FILE needs PEM certificates of the authority that signed the servers' certificates\n"
        )
    );
    let missing = place.run_command(command(&place, &secure, &["--session-log-ca", "/nowhere/file"]));
    assert!(missing.stderr.contains("cannot read /nowhere/file"), "{}", missing.stderr);
}

#[test]
fn a_server_without_a_certificate_is_no_secure_one() {
    let Some((place, server)) = place_with_server(&["--jetstream"]) else { return };
    let text = refused(&place, &format!("tls://127.0.0.1:{}", server.port()), &[]);
    assert!(
        text.starts_with("switchboard: no secure connection to the NATS server at tls://127.0.0.1:"),
        "{text}"
    );
    assert!(text.contains("for a server without TLS use nats://"), "{text}");
}

/// A NATS account, as created by `nsc`.
struct Account {
    operator: KeyPair,
    account: KeyPair,
}

impl Account {
    fn new() -> Self {
        Account { operator: KeyPair::new_operator(), account: KeyPair::new_account() }
    }

    /// Returns the server configuration that trusts the operator and contains the account.
    fn configuration(&self) -> String {
        let system = KeyPair::new_account();
        let unlimited = json!({"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1,
            "wildcards": true, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1});
        let limits = json!({"limits": unlimited, "type": "account"});
        let none = json!({"limits": {"subs": -1, "conn": -1, "wildcards": true}, "type": "account"});
        let signed = |of: &KeyPair, claims: &Value| token(&self.operator, of, claims);
        format!(
            "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}\njetstream: enabled\n",
            signed(&self.operator, &json!({"type": "operator"})),
            system.public_key(),
            self.account.public_key(),
            signed(&self.account, &limits),
            system.public_key(),
            signed(&system, &none),
        )
    }

    /// Returns the credentials file of a new user, with the signature of a key.
    fn user(&self, signer: &KeyPair) -> String {
        let user = KeyPair::new_user();
        let claims = json!({"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "type": "user"});
        format!(
            "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            token(signer, &user, &claims),
            user.seed().unwrap()
        )
    }
}

/// Signs claims about a key.
fn token(signer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let mut claims = claims.clone();
    claims["version"] = json!(2);
    let (issuer, subject) = (signer.public_key(), subject.public_key());
    let body = json!({"jti": subject, "iat": 1_700_000_000, "iss": issuer, "sub": subject, "name": "test", "nats": claims});
    let encoded = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encoded(&json!({"typ": "JWT", "alg": "ed25519-nkey"})), encoded(&body));
    let signature = signer.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

fn file(place: &Place, name: &str, text: &str) -> String {
    place.write(Path::new("home").join(name), text);
    place.home().join(name).to_str().unwrap().to_owned()
}

/// Starts a server with a configuration, in its own directory.
fn configured(text: &str) -> Option<(Place, NatsServer)> {
    let place = Place::new();
    let configuration = file(&place, "nats.conf", text);
    let folder: PathBuf = place.home().join("nats");
    std::fs::create_dir_all(&folder).unwrap();
    let server = NatsServer::start_with(&folder, &["--config", &configuration])?;
    Some((place, server))
}

#[test]
fn a_credentials_file_lets_in() {
    let account = Account::new();
    let Some((place, server)) = configured(&account.configuration()) else { return };
    let address = server.address();
    let right = file(&place, "right.creds", &account.user(&account.account));
    let hub = Hub::start(&place, &["--session-log", &address, "--session-log-credentials", &right, "demo"]);
    block_on(use_session(&hub, &place));
    assert_eq!(hub.end(), Some(0));

    let refusal = format!(
        "switchboard: the NATS server at {address} refuses the credentials\n\
         \x20 hint: set --session-log-credentials FILE or SWITCHBOARD_LOG_CREDENTIALS: a credentials file, USER:PASSWORD, or a token\n"
    );
    let stranger = account.user(&KeyPair::new_account());
    for text in [&*stranger, "me:secret", "token"] {
        let wrong = file(&place, "wrong", text);
        assert_eq!(refused(&place, &address, &["--session-log-credentials", &wrong]), refusal);
    }
    assert_eq!(refused(&place, &address, &[]), refusal);
    let broken = file(&place, "broken.creds", "-----BEGIN NATS USER JWT-----\nnonsense\n");
    let text = refused(&place, &address, &["--session-log-credentials", &broken]);
    assert!(text.starts_with("switchboard: cannot parse the NATS credentials: "), "{text}");
    assert!(text.contains("--session-log-credentials") && !text.contains("nonsense"), "{text}");
}

#[test]
fn the_environment_lets_in_and_agents_do_not_see_it() {
    let Some((place, server)) = place_with_server(&["--jetstream", "--auth", "wonderful"]) else { return };
    let address = server.address();
    let script = format!("printenv {VARIABLE} > seen; echo done >> seen; exec {SWITCHBOARD} demo-agent");
    let mut serve = place.command(&["serve"]);
    serve.env(VARIABLE, "wonderful").args(["--session-log", &address]);
    let hub = Hub::start_command(&place, "hub", serve, &["--", "sh", "-c", &script]).unwrap();
    block_on(async {
        use_session(&hub, &place).await;
        let seen = place.work().join("seen");
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), "done\n");
    });
    assert_eq!(hub.end(), Some(0));

    let mut wrong = command(&place, &address, &[]);
    wrong.env(VARIABLE, "terrible");
    let text = said(place.run_command(wrong));
    assert!(text.contains("refuses the credentials") && text.contains(VARIABLE), "{text}");
    assert!(!text.contains("terrible"), "{text}");
}

/// Returns the permissions of the hub's user that the guide lists.
fn permissions() -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, rest) = guide.split_once("permissions {\n").unwrap();
    format!("permissions {{\n{}\n}}", rest.split_once("\n}").unwrap().0)
}

fn with_permissions(permissions: &str) -> String {
    let user = format!("{{ user: hub, password: secret, {permissions} }}");
    format!("jetstream: enabled\nauthorization {{ users: [ {user} ] }}\n")
}

#[test]
fn a_hub_needs_the_permissions_of_the_guide_and_no_others() {
    let permissions = permissions();
    let Some((place, server)) = configured(&with_permissions(&permissions)) else { return };
    let credentials = file(&place, "credentials", "hub:secret");
    let address = server.address();
    let arguments = ["--session-log", &*address, "--session-log-credentials", &credentials, "demo"];
    let (one, other) = (Hub::start_as(&place, "one", &arguments), Hub::start_as(&place, "other", &arguments));
    block_on(async {
        use_session(&one, &place).await;
        // Requests from one hub to the other are executed and answered.
        let mut at_one = one.client(2).await;
        let session = at_one.new_session(&place).await;
        at_one.prompt(&session, "hello").await;
        at_one.until_idle().await;
        let mut at_other = other.client(2).await;
        super::cluster::attach(&mut at_other, &session, &place).await;
        let prompt = at_other.prompt(&session, "hello").await;
        assert!(at_other.answer(prompt).await.get("error").is_none());
        at_other.until_idle().await;
        at_one.until_idle().await;
        delete(&mut at_other, &session).await;
    });
    assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
    let log = std::fs::read_to_string(place.home().join("nats/nats.log")).unwrap();
    assert!(!log.contains("Violation"), "{log}");
}

#[test]
fn a_missing_permission_is_reported_with_its_subject() {
    let all = permissions();
    for (without, named) in [
        (r#""_INBOX.>", "switchboard.hub.*"]"#, "Subscription to \"_INBOX."),
        (r#""switchboard.hub.*"]"#, "Subscription to \"switchboard.hub."),
        (r#""switchboard.log.*""#, "Publish to \"switchboard.log._probe\""),
        (r#""$KV.switchboard-owners.>""#, "Publish to \"$KV.switchboard-owners._probe\""),
        (r#""$JS.API.STREAM.INFO.*""#, "Publish to \"$JS.API.STREAM.INFO.SWITCHBOARD\""),
        (r#""$JS.API.CONSUMER.CREATE.>""#, "Publish to \"$JS.API.CONSUMER.CREATE."),
    ] {
        let instead = if without.ends_with(']') { r#""nothing"]"# } else { r#""nothing""# };
        let some = all.replacen(without, instead, 1);
        assert_ne!(some, all, "{without}");
        let Some((place, server)) = configured(&with_permissions(&some)) else { return };
        let credentials = file(&place, "credentials", "hub:secret");
        let text = refused(&place, &server.address(), &["--session-log-credentials", &credentials]);
        let problem = "switchboard: the NATS server refuses a permission that the hub needs: Permissions Violation for ";
        assert!(text.starts_with(&format!("{problem}{named}")), "{without}: {text}");
        assert!(text.ends_with("\n  hint: grant its user the permissions in docs/cluster.md\n"), "{text}");
    }
}

#[test]
fn a_server_that_is_too_old_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("nats://{}", listener.local_addr().unwrap());
    let old = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let info = json!({"server_id": "OLD", "version": "2.8.4", "proto": 1, "max_payload": 1_048_576, "headers": true});
        write!(stream, "INFO {info}\r\n").unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            if line == "PING" && write!(stream, "PONG\r\n").is_err() {
                return;
            }
        }
    });
    let place = Place::new();
    assert_eq!(
        refused(&place, &address, &[]),
        "switchboard: the NATS server has version 2.8.4, which is too old\n  hint: version 2.9 or newer is needed\n"
    );
    old.join().unwrap();
}
