// SPDX-License-Identifier: GPL-2.0

//! Who gets MADs that answer nothing: by version, class, method and, for vendors' classes,
//! OUI.
//!
//! An agent asks for them with a [`Request`], which becomes a [`Rule`]. No two rules of a
//! port may take the same MAD.

use super::wire;
use super::wire::class;
use super::wire::Header;
use super::wire::Special;

/// Classes below this can be asked for, and [`class::SMI_DIRECTED`].
pub const CLASS_END: u8 = 80;
/// Versions of classes are below this.
pub const VERSION_END: u8 = 0x83;
/// How many vendors may share a class and version on a port.
pub const VENDORS: usize = 8;

/// What an agent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub version: u8,
    /// Vendor, for the classes that have one.
    pub oui: [u8; 3],
    /// Methods, by bit, without the bit of responses.
    pub methods: u128,
}

/// Why something cannot be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It makes no sense, or not on this queue pair.
    Invalid,
    /// Somebody else gets some of it.
    Taken,
    /// Too many vendors share the class.
    Full,
}

/// What an agent gets.
///
/// # Invariants
///
/// Class and version are below their ends, class 0 excluded; a vendor's class has an OUI
/// that is not zero, others have zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(Request);

impl Rule {
    /// Checks what is asked for by an agent of a queue pair, which uses RMPP or not.
    ///
    /// # Errors
    ///
    /// [`Refused::Invalid`].
    pub fn new(request: Request, qp: Special, rmpp: bool) -> Result<Self, Refused> {
        let Request { class, version, .. } = request;
        let known = class != 0 && (class < CLASS_END || class == class::SMI_DIRECTED);
        let vendor_named = !wire::is_vendor(class) || request.oui != [0; 3];
        let rmpp_fits = !rmpp || wire::has_rmpp(class);
        let qp_fits = wire::is_smi(class) == (qp == Special::Smi);
        if version >= VERSION_END || !known || !vendor_named || !rmpp_fits || !qp_fits {
            return Err(Refused::Invalid);
        }
        let oui = if wire::is_vendor(class) {
            request.oui
        } else {
            [0; 3]
        };
        Ok(Self(Request { oui, ..request }))
    }

    /// Class and version, as they are shown.
    pub const fn class(&self) -> (u8, u8) {
        (self.0.class, self.0.version)
    }

    const fn same_class(&self, other: &Self) -> bool {
        self.0.class == other.0.class && self.0.version == other.0.version
    }

    /// Whether both would take some MAD.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.same_class(other) && self.0.oui == other.0.oui && self.0.methods & other.0.methods != 0
    }

    /// Whether it may join these.
    ///
    /// # Errors
    ///
    /// [`Refused::Taken`], [`Refused::Full`].
    pub fn join<'a>(&self, rules: impl Iterator<Item = &'a Self> + Clone) -> Result<(), Refused> {
        if rules.clone().any(|rule| rule.overlaps(self)) {
            return Err(Refused::Taken);
        }
        if !wire::is_vendor(self.0.class) {
            return Ok(());
        }
        let mut vendors = [self.0.oui; VENDORS];
        let mut count = 0;
        for rule in rules.filter(|rule| rule.same_class(self)) {
            let oui = rule.0.oui;
            if oui == self.0.oui {
                return Ok(());
            }
            if vendors.get(..count).is_some_and(|seen| seen.contains(&oui)) {
                continue;
            }
            if let Some(place) = vendors.get_mut(count) {
                *place = oui;
                // OVERFLOW: there is a place for it.
                count += 1;
            }
        }
        if count < VENDORS {
            Ok(())
        } else {
            Err(Refused::Full)
        }
    }

    /// Whether it takes this MAD, of which `header` is the header.
    pub fn takes(&self, header: &Header, mad: &[u8]) -> bool {
        let Request {
            class,
            version,
            oui,
            methods,
        } = self.0;
        class == header.class
            && version == header.class_version
            && methods >> (header.method & !wire::method::RESPONSE) & 1 != 0
            && (!wire::is_vendor(class) || wire::oui(mad) == Some(oui))
    }
}
