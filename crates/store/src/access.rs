//! Who may do what with the sessions of a hub: tokens with their roles, and which sessions are shared with whom. The
//! store has only the hashes of tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use switchboard_acp::Moment;

use crate::error::{Result, StoreError};
use crate::hosted::Hosted;
use crate::store::Store;
use crate::writer::Command;

/// The tables of what follows. A store of an earlier program has none of them.
pub(crate) const TABLES: &str = "
    -- The sessions that a hub has an agent for, by their ids: a number may be given to another session later.
    CREATE TABLE hosted (
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL, agent_session TEXT NOT NULL,
        owner TEXT NOT NULL, folder TEXT NOT NULL,
        closed INTEGER NOT NULL
    ) WITHOUT ROWID;

    CREATE TABLE tokens (
        name TEXT PRIMARY KEY,
        hash BLOB NOT NULL UNIQUE,
        role TEXT NOT NULL, sees_all INTEGER NOT NULL, made INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE shares (
        session TEXT NOT NULL, token TEXT NOT NULL,
        PRIMARY KEY (session, token)
    ) WITHOUT ROWID;
    CREATE INDEX shares_by_token ON shares (token);
    -- How often tokens and shares were changed.
    CREATE TABLE access (changes INTEGER NOT NULL);
    INSERT INTO access VALUES (0);
";

/// What tokens begin with, so that people and scanners know one when they see it.
const PREFIX: &str = "sb_";
/// How many random bytes a token has.
const RANDOM: usize = 32;
/// How long a token's text is: base64 without padding takes four letters for three bytes.
const LENGTH: usize = PREFIX.len() + (RANDOM * 4).div_ceil(3);
/// The longest name of a token.
const MAX_NAME: usize = 64;

/// What the holder of a token may do. Each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Views sessions.
    View,
    /// Also answers what agents ask, and cancels turns.
    Answer,
    /// Also starts sessions, and controls those that it started or that are shared with it.
    Use,
    /// Does everything, and sees all sessions.
    Admin,
}

/// The name of [`Role::Admin`] in earlier versions. Stores of such a version still have it.
const OLD_ADMIN: &str = "own";

impl Role {
    /// All roles, in their order.
    pub const ALL: [Role; 4] = [Role::View, Role::Answer, Role::Use, Role::Admin];

    /// Its name, as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Role::View => "view",
            Role::Answer => "answer",
            Role::Use => "use",
            Role::Admin => "admin",
        }
    }

    /// Returns the role of a name. `own` is the old name of `admin`.
    ///
    /// ```
    /// use switchboard_store::Role;
    ///
    /// assert_eq!(Role::parse("use"), Some(Role::Use));
    /// assert_eq!(Role::parse("own"), Some(Role::Admin));
    /// assert_eq!(Role::parse("root"), None);
    /// ```
    pub fn parse(name: &str) -> Option<Self> {
        let name = if name == OLD_ADMIN { Role::Admin.name() } else { name };
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What is known about a token. Its text is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name, which is also that of whom it was given to.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// Whether for all sessions; otherwise for those that are shared with it, and its own.
    pub all: bool,
    /// Creation time. No two tokens of a store have the same one, also not those of one name.
    pub made: Moment,
}

/// A token together with the sessions that are shared with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenAccess {
    /// The token.
    pub token: Token,
    /// The ids of the sessions that are shared with it or that it started.
    pub sessions: Vec<String>,
}

/// What the writer is to change.
pub(crate) enum Change {
    AddToken {
        token: Token,
        hash: [u8; blake3::OUT_LEN],
    },
    RevokeToken {
        name: String,
    },
    Share {
        session: String,
        name: String,
    },
    Unshare {
        session: String,
        name: String,
    },
    /// Also shares a new session with the token that started it, named by its name and creation time.
    Host {
        hosted: Hosted,
        starter: Option<(String, Moment)>,
    },
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Done,
    /// There was nothing to do.
    AsBefore,
    NameTaken,
    UnknownToken,
    UnknownSession,
    NotHosted,
}

impl Change {
    pub(crate) fn apply(&self, transaction: &Transaction<'_>) -> rusqlite::Result<Changed> {
        let has = |query: &str, key: &str| transaction.prepare_cached(query)?.exists([key]);
        let has_token = |name: &str| has("SELECT 1 FROM tokens WHERE name = ?1", name);
        let done = match self {
            Change::AddToken { token, hash } => {
                let Token { name, role, all, made } = token;
                if has_token(name)? {
                    return Ok(Changed::NameTaken);
                }
                // A name and a creation time identify a token, so a revoked token's successor of the same name must get a
                // later time even within one millisecond or after the clock was set back. The counter of changes is
                // never below any creation time that was given out.
                let changes: i64 =
                    transaction.query_row("SELECT changes FROM access", [], |row| row.get(0))?;
                let made = made.0.max(changes.saturating_add(1));
                transaction.execute(
                    "INSERT INTO tokens (name, hash, role, sees_all, made) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![name, hash.as_slice(), role.name(), all, made],
                )?;
                transaction.execute("UPDATE access SET changes = ?1", [made])?;
                return Ok(Changed::Done);
            }
            Change::RevokeToken { name } => {
                // Another token of that name has to be given its sessions anew.
                transaction.execute("DELETE FROM shares WHERE token = ?1", [name])?;
                if transaction.execute("DELETE FROM tokens WHERE name = ?1", [name])? == 0 {
                    return Ok(Changed::UnknownToken);
                }
                1
            }
            Change::Share { session, name } => {
                if !has_token(name)? {
                    return Ok(Changed::UnknownToken);
                }
                if !has("SELECT 1 FROM hosted WHERE id = ?1", session)? {
                    return Ok(Changed::NotHosted);
                }
                transaction.execute("INSERT OR IGNORE INTO shares VALUES (?1, ?2)", [session, name])?
            }
            Change::Unshare { session, name } => {
                if !has_token(name)? {
                    return Ok(Changed::UnknownToken);
                }
                transaction
                    .execute("DELETE FROM shares WHERE session = ?1 AND token = ?2", [session, name])?
            }
            Change::Host { hosted, starter } => {
                if !hosted.save(transaction)? {
                    return Ok(Changed::UnknownSession);
                }
                if let Some((name, made)) = starter {
                    // A token that was revoked meanwhile gets nothing, and neither does a later one of its name.
                    transaction.execute(
                        "INSERT OR IGNORE INTO shares
                         SELECT ?1, name FROM tokens WHERE name = ?2 AND made = ?3",
                        params![hosted.id, name, made.0],
                    )?;
                }
                return Ok(Changed::Done);
            }
        };
        if done == 0 {
            return Ok(Changed::AsBefore);
        }
        transaction.execute("UPDATE access SET changes = changes + 1", [])?;
        Ok(Changed::Done)
    }
}

/// Forgets who may see a session, and that it was hosted.
pub(crate) fn forget(transaction: &Transaction<'_>, id: &str) -> rusqlite::Result<()> {
    let hosted = transaction.execute("DELETE FROM hosted WHERE id = ?1", [id])?;
    let shares = transaction.execute("DELETE FROM shares WHERE session = ?1", [id])?;
    if hosted + shares > 0 {
        transaction.execute("UPDATE access SET changes = changes + 1", [])?;
    }
    Ok(())
}

/// Whether a name can be one of a token: letters, digits and a few marks, so that it can stand anywhere.
fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || "-_.@+".contains(letter);
    !name.is_empty()
        && name.chars().count() <= MAX_NAME
        && name.chars().all(fits)
        && name.starts_with(char::is_alphanumeric)
}

fn token(row: &Row<'_>) -> rusqlite::Result<Option<Token>> {
    // A role that only a later program knows allows nothing here.
    let Some(role) = Role::parse(row.get_ref(1)?.as_str()?) else { return Ok(None) };
    Ok(Some(Token { name: row.get(0)?, role, all: row.get(2)?, made: Moment(row.get(3)?) }))
}

const TOKEN: &str = "SELECT name, role, sees_all, made FROM tokens";

/// The first column of all rows.
fn names(connection: &Connection, query: &str, key: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare_cached(query)?.query_map([key], |row| row.get(0))?.collect()
}

/// Tokens and shares. What reads waits for nobody; what changes waits for the store's writer, and so perhaps for other
/// processes.
impl Store {
    /// Makes a token. Its text is given here and never again.
    pub fn add_token(&self, name: &str, role: Role, all: bool) -> Result<String> {
        if !is_name(name) {
            return Err(StoreError::TokenName { name: name.to_owned() });
        }
        let mut random = [0; RANDOM];
        getrandom::fill(&mut random)
            .map_err(|error| StoreError::Disk { reason: format!("no random numbers: {error}") })?;
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let hash = *blake3::hash(text.as_bytes()).as_bytes();
        let token = Token { name: name.to_owned(), role, all, made: Moment::now() };
        self.change(Change::AddToken { token, hash }, name)?;
        Ok(text)
    }

    /// All tokens, by their names.
    pub fn tokens(&self) -> Result<Vec<Token>> {
        self.read_access(|connection| {
            let mut statement = connection.prepare_cached(&format!("{TOKEN} ORDER BY name"))?;
            let tokens = statement.query_map([], token)?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(tokens.into_iter().flatten().collect())
        })
    }

    /// The token with a text, if there is one.
    pub fn find_token(&self, text: &str) -> Result<Option<Token>> {
        if text.len() != LENGTH || !text.starts_with(PREFIX) {
            return Ok(None);
        }
        // How long this takes tells something of the hash at most, and nothing of any text.
        let hash = blake3::hash(text.as_bytes());
        self.read_access(|connection| {
            let found = connection
                .prepare_cached(&format!("{TOKEN} WHERE hash = ?1"))?
                .query_row([hash.as_bytes().as_slice()], token)
                .optional()?;
            Ok(found.flatten())
        })
    }

    /// Makes a token worthless, and forgets what was shared with it.
    pub fn revoke_token(&self, name: &str) -> Result<()> {
        self.change(Change::RevokeToken { name: name.to_owned() }, name).map(drop)
    }

    /// Shares a session of a hub with a token. Says whether it was not before.
    pub fn share(&self, session: &str, name: &str) -> Result<bool> {
        let (_, session) = self.number(session)?;
        self.change(Change::Share { session, name: name.to_owned() }, name)
    }

    /// Takes a shared session back. Says whether it was shared.
    pub fn unshare(&self, session: &str, name: &str) -> Result<bool> {
        let (_, session) = self.number(session)?;
        self.change(Change::Unshare { session, name: name.to_owned() }, name)
    }

    /// The tokens that a session is shared with, by its whole id.
    pub fn shares(&self, session: &str) -> Result<Vec<String>> {
        self.read_access(|connection| {
            names(connection, "SELECT token FROM shares WHERE session = ?1 ORDER BY token", session)
        })
    }

    /// The sessions that are shared with a token.
    pub fn shared_with(&self, name: &str) -> Result<Vec<String>> {
        self.read_access(|connection| {
            names(connection, "SELECT session FROM shares WHERE token = ?1 ORDER BY session", name)
        })
    }

    /// All tokens with what is shared with each, as they were at one moment.
    pub fn token_access(&self) -> Result<Vec<TokenAccess>> {
        self.read_access(|connection| {
            // One transaction: between two reads a token could be replaced by another one of its name.
            let transaction = connection.unchecked_transaction()?;
            let tokens: Vec<Option<Token>> = {
                let mut statement = transaction.prepare_cached(&format!("{TOKEN} ORDER BY name"))?;
                statement.query_map([], token)?.collect::<rusqlite::Result<_>>()?
            };
            let mut all = Vec::new();
            for token in tokens.into_iter().flatten() {
                let sessions = names(
                    &transaction,
                    "SELECT session FROM shares WHERE token = ?1 ORDER BY session",
                    &token.name,
                )?;
                all.push(TokenAccess { token, sessions });
            }
            Ok(all)
        })
    }

    /// A number that is another one after tokens or shares were changed or a session of a hub was deleted, by whichever
    /// process. It is cheap.
    pub fn access_changed(&self) -> Result<u64> {
        self.read_access(|connection| {
            let changes = connection
                .prepare_cached("SELECT changes FROM access")?
                .query_row([], |row| row.get::<_, i64>(0))?;
            Ok(changes.unsigned_abs())
        })
    }

    /// Changes something, and says whether that was needed. `name` is that of the token.
    pub(crate) fn change(&self, change: Change, name: &str) -> Result<bool> {
        let session = match &change {
            Change::Share { session, .. } | Change::Unshare { session, .. } => session.clone(),
            Change::Host { hosted, .. } => hosted.id.clone(),
            Change::AddToken { .. } | Change::RevokeToken { .. } => String::new(),
        };
        let name = name.to_owned();
        match self.ask(|reply| Command::Access { change, reply })? {
            Changed::Done => Ok(true),
            Changed::AsBefore => Ok(false),
            Changed::NameTaken => Err(StoreError::TokenTaken { name }),
            Changed::UnknownToken => Err(StoreError::UnknownToken { name }),
            Changed::UnknownSession => Err(StoreError::UnknownSession { session }),
            Changed::NotHosted => Err(StoreError::NotHosted { session }),
        }
    }
}
