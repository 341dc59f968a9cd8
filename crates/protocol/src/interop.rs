//! Implementations of serde's traits.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Raw, Wire, WireFormat};

pub(crate) fn serialize<'a, T: Wire<'a>, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let text = value.encode(WireFormat::Spec);
    RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer)
}

pub(crate) fn deserialize<'de: 'a, 'a, T: Wire<'a>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    T::decode(raw.get(), WireFormat::Spec).map_err(D::Error::custom)
}

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.as_str().to_owned();
        RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        Raw::parse(Cow::Borrowed(raw.get())).map_err(D::Error::custom)
    }
}
