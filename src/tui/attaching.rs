//! Taking hold of what somebody else started: what is asked of the servers, what they answered, and the form in which
//! the operator says what is to be looked at. Plain values; the machine changes them, the view draws them.

use crate::{
    domain::{
        Time,
        attach::NativeSeen,
        ids::{BackfillId, Name},
        spec::Spec,
    },
    executor::attach::{Found, Offer},
    plan::attach_spec::{self, Wanted},
};
use chrono::NaiveDate;

/// A question to the servers. It is asked on a thread of its own, and answered as far as answers come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// What could be attached to, on every executor that has levers.
    Offers,
    /// What one of them is.
    Find {
        /// The executor.
        executor: Name,
        /// The DAG.
        dag: String,
        /// Its native backfill.
        native: Option<u64>,
        /// Names of orders that have not ended.
        live: Vec<Name>,
    },
    /// The order for it, checked against the configuration and the pool.
    Order(Box<Wanted>),
}

/// What came of an errand.
#[derive(Debug, Clone, PartialEq)]
pub enum Scouted {
    /// These executors have levers, and are being asked.
    Executors(Vec<Name>),
    /// What one of them offers, or why it did not say.
    Offers(Name, Result<Vec<Offer>, String>),
    /// What it is, with a name for it and the word for what its server is.
    Found(Result<Box<Known>, String>),
    /// The order with its hash, ready to be journaled.
    Order(Result<Box<Ordered>, String>),
    /// The errand came to nothing at all: the configuration cannot be read, or no thread can be started.
    Failed(String),
}

/// What is known about something before it is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// By its server.
    pub found: Found,
    /// A name that nothing else has.
    pub name: String,
    /// The word for what its server is.
    pub environment: Option<String>,
}

/// An order that can be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordered {
    /// Its id, drawn.
    pub id: BackfillId,
    /// The order.
    pub spec: Spec,
    /// Its hash.
    pub hash: String,
}

/// An executor in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Its name.
    pub executor: Name,
    /// What it offers, or why it does not say; `None` while it is being asked.
    pub offers: Option<Result<Vec<Offer>, String>>,
}

/// The layer: a list, and above it the form for what was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Attaching {
    /// The errand whose answers belong here; answers to older ones are dropped.
    pub errand: u64,
    /// When it was asked.
    pub since: Time,
    /// The executors; `None` until it is known which ones have levers.
    pub places: Option<Vec<Place>>,
    /// Why there is no list at all.
    pub problem: Option<String>,
    /// A part of a DAG's name.
    pub typed: String,
    /// The chosen row.
    pub chosen: usize,
    /// What was chosen.
    pub form: Option<Form>,
}

/// A row that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Where.
    pub executor: Name,
    /// What.
    pub offer: Offer,
}

impl Attaching {
    /// A list that was just asked for.
    pub const fn new(errand: u64, since: Time) -> Self {
        Self {
            errand,
            since,
            places: None,
            problem: None,
            typed: String::new(),
            chosen: 0,
            form: None,
        }
    }

    /// What can be chosen: the offers that fit what is typed, and a DAG of exactly that name, which need not be among
    /// them.
    pub fn choices(&self) -> Vec<Choice> {
        let mut all = Vec::new();
        let typed = self.typed.trim();
        for place in self.places.iter().flatten() {
            let offers = match &place.offers {
                Some(Ok(offers)) => offers.as_slice(),
                _ => &[],
            };
            let fits = |o: &&Offer| o.dag.to_lowercase().contains(&typed.to_lowercase());
            all.extend(offers.iter().filter(fits).map(|offer| Choice {
                executor: place.executor.clone(),
                offer: offer.clone(),
            }));
            let named = offers.iter().any(|o| o.dag == typed);
            if !typed.is_empty() && !named && matches!(place.offers, Some(Ok(_))) {
                all.push(Choice {
                    executor: place.executor.clone(),
                    offer: Offer {
                        dag: typed.to_owned(),
                        native: None,
                        window: None,
                        words: "by this name, if there is such a DAG".to_owned(),
                    },
                });
            }
        }
        all
    }
}

/// The fields of the form, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Our name for it.
    Name,
    /// First day.
    From,
    /// Last day.
    To,
    /// The zone of its civil days.
    Zone,
    /// The pool that throttles it.
    Pool,
    /// Signals whose pauses hold it.
    Signals,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Name,
        Self::From,
        Self::To,
        Self::Zone,
        Self::Pool,
        Self::Signals,
    ];

    /// Its label.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::From => "from",
            Self::To => "to",
            Self::Zone => "zone",
            Self::Pool => "pool",
            Self::Signals => "signals",
        }
    }

    /// What an empty one means.
    pub const fn empty(self) -> &'static str {
        match self {
            Self::Name => "a name for it here",
            Self::From => "its first day, such as 2023-01-01",
            Self::To => "its last day, included",
            Self::Zone => "whose days, such as Europe/Berlin",
            Self::Pool => "none: no limit can be written",
            Self::Signals => "none: no lag pauses it",
        }
    }
}

/// The form for what was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// What was chosen.
    pub choice: Choice,
    /// What its server says of it; `None` while it is being asked.
    pub known: Option<Result<Box<Known>, String>>,
    /// What stands in the fields.
    pub values: [String; 6],
    /// Which one is being typed in.
    pub at: Field,
    /// One line: what is going on, or what is wrong.
    pub outcome: Option<String>,
    /// It is sent and not answered.
    pub sent: bool,
}

/// The limit of what has neither a native backfill nor a pool that would tell one.
const LIMIT: u32 = 16;

impl Form {
    /// A form that waits for the server's word.
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            known: None,
            values: Default::default(),
            at: Field::Name,
            outcome: None,
            sent: false,
        }
    }

    /// What stands in a field.
    pub fn value(&self, field: Field) -> &str {
        self.values[field as usize].trim()
    }

    /// The text that is being typed.
    pub fn line(&mut self) -> &mut String {
        &mut self.values[self.at as usize]
    }

    /// Goes on to the next field, or back; the ends stay.
    pub fn go(&mut self, by: isize) {
        let to = (self.at as usize)
            .saturating_add_signed(by)
            .min(Field::ALL.len() - 1);
        self.at = Field::ALL[to];
    }

    /// Fills in what the server told, where nothing was typed yet.
    pub fn learn(&mut self, known: Result<Box<Known>, String>) {
        if let Ok(known) = &known {
            let window = known.found.window.or(self.choice.offer.window);
            let day = |d: NaiveDate| d.to_string();
            let told = [
                (Field::Name, Some(known.name.clone())),
                (Field::From, window.map(|w| day(w.0))),
                (Field::To, window.map(|w| day(w.1))),
                (Field::Zone, known.found.zone.map(|z| z.name().to_owned())),
            ];
            for (field, value) in told {
                let into = &mut self.values[field as usize];
                if let Some(value) = value.filter(|_| into.is_empty()) {
                    *into = value;
                }
            }
        }
        self.known = Some(known);
    }

    /// What is wanted.
    ///
    /// # Errors
    /// The field in which something is missing or wrong, and what, in words.
    pub fn wanted(&self) -> Result<Wanted, (Field, String)> {
        let known = match &self.known {
            Some(Ok(known)) => known,
            Some(Err(why)) => return Err((self.at, why.clone())),
            None => return Err((self.at, format!("{} has not answered yet", self.choice.executor))),
        };
        let name = self.value(Field::Name);
        let name: Name = name.parse().map_err(|e| (Field::Name, format!("{e}")))?;
        let day = |field: Field| {
            let text = self.value(field);
            text.parse::<NaiveDate>()
                .map_err(|_| (field, format!("`{text}` is no day: type it as 2023-01-31")))
        };
        let zone = self.value(Field::Zone);
        let timezone = zone.parse().map_err(|_| {
            let why = if zone.is_empty() {
                "its runs do not tell the zone of their days: type it, such as Europe/Berlin".to_owned()
            } else {
                format!("`{zone}` is no zone: type it as Europe/Berlin")
            };
            (Field::Zone, why)
        })?;
        let names = self
            .value(Field::Signals)
            .split([',', ' '])
            .filter(|s| !s.is_empty());
        let signals = names.map(|s| s.parse().map_err(|e| (Field::Signals, format!("{e}"))));
        let signals: Vec<Name> = signals.collect::<Result<_, _>>()?;
        let pool = Some(self.value(Field::Pool)).filter(|p| !p.is_empty());
        let window = (day(Field::From)?, day(Field::To)?);
        let native = known.found.native.as_ref();
        // Where only the DAG was chosen, its native backfill is ours to hold if it is about days of the window.
        let is_about = |n: &&NativeSeen| attach_spec::is_about((n.from, n.to), window, timezone);
        let native = native.filter(|n| self.choice.offer.native.is_some() || is_about(n));
        let unfinished = native.filter(|n| n.completed.is_none());
        if !signals.is_empty() && unfinished.is_none() && pool.is_none() {
            let why = "it has no unfinished native backfill over these days, so a signal could pause nothing: name its pool";
            return Err((Field::Pool, why.to_owned()));
        }
        Ok(Wanted {
            name,
            executor: self.choice.executor.clone(),
            environment: known.environment.clone(),
            dag: known.found.dag.clone(),
            // One that was chosen as such is attached to although it may have ended meanwhile.
            native: match self.choice.offer.native {
                Some(_) => native.map(|n| n.id),
                None => unfinished.map(|n| n.id),
            },
            start: window.0,
            end: window.1,
            timezone,
            pool: pool.map(str::to_owned),
            max_limit: native.map_or(LIMIT, |n| n.limit),
            signals,
        })
    }
}
