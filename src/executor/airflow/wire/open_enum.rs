//! Lists of words that grow with every minor version.

/// Makes an enum of known words that keeps every other word as it came.
macro_rules! open_enum {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// A word that this program does not know, as it came.
            Other(String),
        }

        impl $name {
            /// The server's word.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            /// Never fails: what is no word is kept as its text.
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Ok(match serde_json::Value::deserialize(from)? {
                    serde_json::Value::String(word) => Self::from(word.as_str()),
                    other => Self::from(other.to_string().as_str()),
                })
            }
        }
    };
}
