//! Deduplication: long strings are cut out of messages and stored once, by hash.

use rusqlite::{Connection, OptionalExtension, params};

use crate::block::{Piece, compress, decompress};

/// Minimum length in bytes of a string that is stored separately.
const LONG: usize = 2048;

/// Returns the long strings of a JSON text as ranges between their quotation marks. For other input the
/// ranges are arbitrary but harmless: the pieces always add up to the input.
pub(crate) fn long_strings(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    if text.len() < LONG {
        return found;
    }
    let mut at = 0;
    while let Some(quote) = memchr::memchr(b'"', &text[at..]) {
        let start = at + quote + 1;
        let mut end = start;
        loop {
            match memchr::memchr2(b'"', b'\\', &text[end..]) {
                Some(next) if text[end + next] == b'"' => {
                    end += next;
                    break;
                }
                Some(next) => end = (end + next + 2).min(text.len()),
                None => return found,
            }
        }
        if end - start >= LONG {
            found.push(start..end);
        }
        at = end + 1;
    }
    found
}

/// Cuts a text into pieces and stores the long ones.
pub(crate) fn cut<'a>(
    connection: &Connection,
    session: i64,
    text: &'a [u8],
) -> rusqlite::Result<Vec<Piece<'a>>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for range in long_strings(text) {
        pieces.push(Piece::Bytes(&text[at..range.start]));
        at = range.end;
        pieces.push(Piece::Content(save(connection, session, &text[range])?));
    }
    pieces.push(Piece::Bytes(&text[at..]));
    Ok(pieces)
}

fn save(connection: &Connection, session: i64, content: &[u8]) -> rusqlite::Result<u64> {
    let hash = blake3::hash(content);
    let known = connection
        .prepare_cached("SELECT number FROM contents WHERE hash = ?1")?
        .query_row([hash.as_bytes().as_slice()], |row| row.get::<_, i64>(0))
        .optional()?;
    let number = match known {
        Some(number) => number,
        None => {
            let data =
                compress(content).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            connection
                .prepare_cached("INSERT INTO contents (hash, length, data) VALUES (?1, ?2, ?3)")?
                .execute(params![hash.as_bytes().as_slice(), content.len() as i64, data])?;
            connection.last_insert_rowid()
        }
    };
    connection
        .prepare_cached("INSERT OR IGNORE INTO content_uses (content, session) VALUES (?1, ?2)")?
        .execute([number, session])?;
    Ok(number.unsigned_abs())
}

/// Loads content, or returns the reason why it is unreadable.
pub(crate) fn load(connection: &Connection, number: u64) -> rusqlite::Result<Result<Vec<u8>, String>> {
    let found = connection
        .prepare_cached("SELECT hash, data FROM contents WHERE number = ?1")?
        .query_row([number as i64], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    let Some((hash, data)) = found else {
        return Ok(Err(format!("content {number} is missing")));
    };
    Ok(match decompress(&data) {
        Ok(content) if blake3::hash(&content).as_bytes().as_slice() == hash => Ok(content),
        _ => Err(format!("content {number} does not match its hash")),
    })
}

#[cfg(test)]
mod tests {
    use super::{LONG, long_strings};

    #[test]
    fn only_long_strings_are_cut_out_and_escapes_do_not_end_them() {
        let long = "a\\\"b".repeat(LONG);
        let text = format!(r#"{{"short":"x\\","long":"{long}","n":1}}"#);
        let found = long_strings(text.as_bytes());
        assert_eq!(found.len(), 1);
        assert_eq!(&text[found[0].clone()], long);
        assert!(long_strings(format!("\"{long}").as_bytes()).is_empty());
        assert!(long_strings(format!("\"{long}\\").as_bytes()).is_empty());
    }
}
