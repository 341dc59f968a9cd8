//! Converts a byte offset in a JSON text to a JSON pointer.

use super::reader::Reader;
use crate::WireFormat;
use crate::error::Read;

/// Returns the JSON pointer to the innermost value that starts at or contains `offset`.
pub(crate) fn pointer_to(text: &str, offset: usize) -> String {
    let mut reader = Reader::new(text, WireFormat::Any);
    let mut pointer = String::new();
    // If the text is invalid later on, the path so far is still correct.
    let _ = descend(&mut reader, offset, &mut pointer);
    pointer
}

/// Walks to `offset`. The pointer contains the path when this returns `Ok(true)` or an error.
fn descend(reader: &mut Reader<'_>, offset: usize, pointer: &mut String) -> Read<bool> {
    if reader.position() >= offset {
        return Ok(true);
    }
    match reader.peek() {
        Some(b'{') => {
            let mut first = true;
            reader.begin_object()?;
            while let Some(key) = reader.next_key(&mut first)? {
                let length = pointer.len();
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                if descend(reader, offset, pointer)? {
                    return Ok(true);
                }
                pointer.truncate(length);
            }
        }
        Some(b'[') => {
            let mut index = 0;
            reader.begin_array()?;
            while reader.next_item(index == 0)? {
                let length = pointer.len();
                pointer.push_str(&format!("/{index}"));
                if descend(reader, offset, pointer)? {
                    return Ok(true);
                }
                pointer.truncate(length);
                index += 1;
            }
        }
        _ => reader.skip_value()?,
    }
    Ok(reader.position() > offset)
}
