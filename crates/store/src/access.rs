//! Access control for the sessions of a hub: tokens with roles, and sessions shared with tokens. The store
//! holds only hashes of tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use switchboard_acp::Moment;

use crate::error::{Result, StoreError};
use crate::hosted::Hosted;
use crate::kept;
use crate::store::Store;
use crate::writer::Command;

/// Tables for access control. Stores of earlier versions lack them.
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

/// Prefix of tokens, so that people and secret scanners recognize them.
const PREFIX: &str = "sb_";
/// Number of random bytes in a token.
const RANDOM: usize = 32;
/// Length of a token's text: base64 without padding takes four characters for three bytes.
const LENGTH: usize = PREFIX.len() + (RANDOM * 4).div_ceil(3);
/// Maximum length of a token's name in bytes.
const MAX_NAME: usize = 64;

/// Permissions of a token. Each role includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Views sessions.
    View,
    /// Also answers agents' requests and cancels turns.
    Answer,
    /// Also starts sessions, and controls those that it started or that are shared with it.
    Use,
    /// Does everything, and sees all sessions.
    Admin,
}

/// Name of [`Role::Admin`] in earlier versions. Their stores still contain it.
const OLD_ADMIN: &str = "own";

impl Role {
    /// All roles in order.
    pub const ALL: [Role; 4] = [Role::View, Role::Answer, Role::Use, Role::Admin];

    /// Returns the name.
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

/// Limits of a token for a page of another server. Such a token may be part of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenLimits {
    /// Origin of the page, such as `http://localhost:2718`.
    pub origin: String,
    /// Name of the agent.
    pub agent: String,
    /// Time after which the token is invalid.
    pub expires: Moment,
}

/// Table of the limits. Created on first use: stores of earlier versions lack it.
const LIMITS_TABLE: &str = "CREATE TABLE IF NOT EXISTS token_limits (
    token TEXT PRIMARY KEY, origin TEXT NOT NULL, agent TEXT NOT NULL, expires INTEGER NOT NULL
) WITHOUT ROWID";
/// Suffix of the role of a limited token. Earlier versions of the program, which would ignore the limits, do not know
/// such a role, and a token with an unknown role grants nothing.
const LIMITED: &str = " limited";

/// A token's metadata. The store does not have its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Name of the token and of its holder.
    pub name: String,
    /// Permissions of the token.
    pub role: Role,
    /// True if the token applies to all sessions, false if only to its own and those shared with it.
    pub all: bool,
    /// Creation time. Unique in the store, even among tokens that reuse a name.
    pub made: Moment,
    /// Limits, if it is a token for a page of another server.
    pub limits: Option<TokenLimits>,
}

/// A token with the sessions that it can access.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenAccess {
    /// The token.
    pub token: Token,
    /// Ids of the sessions that are shared with it or that it started.
    pub sessions: Vec<String>,
}

/// A change for the writer to apply.
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
    /// Also shares a new session with the token that started it, given by name and creation time.
    Host {
        hosted: Hosted,
        starter: Option<(String, Moment)>,
    },
    /// Keeps a small value, or deletes it.
    Keep {
        name: String,
        value: Option<String>,
    },
}

/// Result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Done,
    /// The change had no effect.
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
                let Token { name, role, all, made, limits } = token;
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
                    params![name, hash.as_slice(), stored_role(*role, limits.is_some()), all, made],
                )?;
                if let Some(TokenLimits { origin, agent, expires }) = limits {
                    transaction.execute(LIMITS_TABLE, [])?;
                    transaction.execute(
                        "INSERT OR REPLACE INTO token_limits VALUES (?1, ?2, ?3, ?4)",
                        params![name, origin, agent, expires.0],
                    )?;
                }
                transaction.execute("UPDATE access SET changes = ?1", [made])?;
                return Ok(Changed::Done);
            }
            Change::RevokeToken { name } => {
                // A later token with the same name must not inherit the shares.
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
            Change::Keep { name, value } => {
                kept::keep(transaction, name, value.as_deref())?;
                return Ok(Changed::Done);
            }
            Change::Host { hosted, starter } => {
                if !hosted.save(transaction)? {
                    return Ok(Changed::UnknownSession);
                }
                if let Some((name, made)) = starter {
                    // If the token was revoked meanwhile, nothing is shared, not even with a new token of the
                    // same name.
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

/// Removes the shares and the hub metadata of a session.
pub(crate) fn forget(transaction: &Transaction<'_>, id: &str) -> rusqlite::Result<()> {
    let hosted = transaction.execute("DELETE FROM hosted WHERE id = ?1", [id])?;
    let shares = transaction.execute("DELETE FROM shares WHERE session = ?1", [id])?;
    if hosted + shares > 0 {
        transaction.execute("UPDATE access SET changes = changes + 1", [])?;
    }
    Ok(())
}

/// Returns true if a name is valid for a token: letters, digits and a few punctuation marks, safe in any
/// context.
fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || "-_.@+".contains(letter);
    !name.is_empty()
        && name.chars().count() <= MAX_NAME
        && name.chars().all(fits)
        && name.starts_with(char::is_alphanumeric)
}

/// Returns the text of a role in the table.
fn stored_role(role: Role, is_limited: bool) -> String {
    format!("{}{}", role.name(), if is_limited { LIMITED } else { "" })
}

fn token(row: &Row<'_>) -> rusqlite::Result<Option<(Token, bool)>> {
    let role = row.get_ref(1)?.as_str()?;
    let is_limited = role.ends_with(LIMITED);
    // An unknown role of a later version grants nothing.
    let Some(role) = Role::parse(role.strip_suffix(LIMITED).unwrap_or(role)) else { return Ok(None) };
    let token = Token { name: row.get(0)?, role, all: row.get(2)?, made: Moment(row.get(3)?), limits: None };
    Ok(Some((token, is_limited)))
}

/// Adds the limits to a token. A limited token whose limits are missing or whose time is over grants nothing.
fn with_limits(connection: &Connection, found: (Token, bool)) -> rusqlite::Result<Option<Token>> {
    let (mut token, is_limited) = found;
    if !is_limited {
        return Ok(Some(token));
    }
    let query = "SELECT origin, agent, expires FROM token_limits WHERE token = ?1";
    let limits = connection.prepare_cached(query)?.query_row([&token.name], |row| {
        Ok(TokenLimits { origin: row.get(0)?, agent: row.get(1)?, expires: Moment(row.get(2)?) })
    });
    token.limits = limits.optional()?.filter(|limits| limits.expires.0 > Moment::now().0);
    Ok(token.limits.is_some().then_some(token))
}

const TOKEN: &str = "SELECT name, role, sees_all, made FROM tokens";

/// Returns the first column of all rows.
fn names(connection: &Connection, query: &str, key: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare_cached(query)?.query_map([key], |row| row.get(0))?.collect()
}

/// Tokens and shares. Reads do not block. Changes wait for the store's writer, and so possibly for other
/// processes.
impl Store {
    /// Creates a token and returns its text, which cannot be retrieved later.
    pub fn add_token(&self, name: &str, role: Role, all: bool) -> Result<String> {
        self.add_limited_token(name, role, all, None)
    }

    /// Creates a token with limits, for a page of another server. See [`Store::add_token`].
    pub fn add_limited_token(
        &self,
        name: &str,
        role: Role,
        all: bool,
        limits: Option<TokenLimits>,
    ) -> Result<String> {
        if !is_name(name) {
            return Err(StoreError::TokenName { name: name.to_owned() });
        }
        let mut random = [0; RANDOM];
        getrandom::fill(&mut random).map_err(|error| StoreError::Disk {
            reason: format!("the operating system provides no random numbers: {error}"),
        })?;
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let hash = *blake3::hash(text.as_bytes()).as_bytes();
        let token = Token { name: name.to_owned(), role, all, made: Moment::now(), limits };
        self.change(Change::AddToken { token, hash }, name)?;
        Ok(text)
    }

    /// Returns all tokens, sorted by name.
    pub fn tokens(&self) -> Result<Vec<Token>> {
        self.read_access(|connection| {
            let mut statement = connection.prepare_cached(&format!("{TOKEN} ORDER BY name"))?;
            let tokens = statement.query_map([], token)?.collect::<rusqlite::Result<Vec<_>>>()?;
            let tokens = tokens.into_iter().flatten().map(|found| with_limits(connection, found));
            Ok(tokens.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
        })
    }

    /// Returns the token with the given text, if there is one.
    pub fn find_token(&self, text: &str) -> Result<Option<Token>> {
        if text.len() != LENGTH || !text.starts_with(PREFIX) {
            return Ok(None);
        }
        // Timing can reveal something about the hash at most, not about any token text.
        let hash = blake3::hash(text.as_bytes());
        self.read_access(|connection| {
            let found = connection
                .prepare_cached(&format!("{TOKEN} WHERE hash = ?1"))?
                .query_row([hash.as_bytes().as_slice()], token)
                .optional()?;
            match found.flatten() {
                Some(found) => with_limits(connection, found),
                None => Ok(None),
            }
        })
    }

    /// Revokes a token and removes its shares.
    pub fn revoke_token(&self, name: &str) -> Result<()> {
        self.change(Change::RevokeToken { name: name.to_owned() }, name).map(drop)
    }

    /// Shares a hub session with a token. Returns false if it already was.
    pub fn share(&self, session: &str, name: &str) -> Result<bool> {
        let (_, session) = self.number(session)?;
        self.change(Change::Share { session, name: name.to_owned() }, name)
    }

    /// Stops sharing a session with a token. Returns false if it was not shared.
    pub fn unshare(&self, session: &str, name: &str) -> Result<bool> {
        let (_, session) = self.number(session)?;
        self.change(Change::Unshare { session, name: name.to_owned() }, name)
    }

    /// Returns the tokens that a session is shared with. Takes the full session id.
    pub fn shares(&self, session: &str) -> Result<Vec<String>> {
        self.read_access(|connection| {
            names(connection, "SELECT token FROM shares WHERE session = ?1 ORDER BY token", session)
        })
    }

    /// Returns the sessions that are shared with a token.
    pub fn shared_with(&self, name: &str) -> Result<Vec<String>> {
        self.read_access(|connection| {
            names(connection, "SELECT session FROM shares WHERE token = ?1 ORDER BY session", name)
        })
    }

    /// Returns all tokens with their shared sessions, as a consistent snapshot.
    pub fn token_access(&self) -> Result<Vec<TokenAccess>> {
        self.read_access(|connection| {
            // One transaction: between two reads a token could be replaced by another one with the same name.
            let transaction = connection.unchecked_transaction()?;
            let tokens: Vec<Option<(Token, bool)>> = {
                let mut statement = transaction.prepare_cached(&format!("{TOKEN} ORDER BY name"))?;
                statement.query_map([], token)?.collect::<rusqlite::Result<_>>()?
            };
            let mut all = Vec::new();
            for found in tokens.into_iter().flatten() {
                let Some(token) = with_limits(&transaction, found)? else { continue };
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

    /// Returns a number that changes when any process changes tokens or shares or deletes a hub session.
    /// Cheap.
    pub fn access_changed(&self) -> Result<u64> {
        self.read_access(|connection| {
            let changes = connection
                .prepare_cached("SELECT changes FROM access")?
                .query_row([], |row| row.get::<_, i64>(0))?;
            Ok(changes.unsigned_abs())
        })
    }

    /// Applies a change. Returns false if it had no effect. `name` is the token's name, for errors.
    pub(crate) fn change(&self, change: Change, name: &str) -> Result<bool> {
        let session = match &change {
            Change::Share { session, .. } | Change::Unshare { session, .. } => session.clone(),
            Change::Host { hosted, .. } => hosted.id.clone(),
            Change::AddToken { .. } | Change::RevokeToken { .. } | Change::Keep { .. } => String::new(),
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
