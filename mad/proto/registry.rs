// SPDX-License-Identifier: GPL-2.0

//! Which agent receives unsolicited MADs: by class, version, method and, for vendor classes, OUI.
//!
//! An agent registers a [`Request`], which becomes a [`Rule`]. No two rules of a port may match the
//! same MAD.

use super::wire;
use super::wire::class;
use super::wire::Header;
use super::wire::Special;

/// Classes below this may be requested, and [`class::SMI_DIRECTED`].
pub const CLASS_END: u8 = 80;
/// Class versions are below this.
pub const VERSION_END: u8 = 0x83;
/// Maximum number of vendors that share a class and version on a port.
pub const VENDORS: usize = 8;

/// Request of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub version: u8,
    /// OUI of the vendor, for classes that have one.
    pub oui: [u8; 3],
    /// Set of methods, one bit each, without the response bit.
    pub methods: u128,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is invalid, or not permitted on this queue pair.
    Invalid,
    /// It overlaps with a rule of another agent.
    Taken,
    /// Too many vendors share the class.
    Full,
}

/// Which MADs an agent receives.
///
/// # Invariants
///
/// The class is not 0, and is below [`CLASS_END`] or [`class::SMI_DIRECTED`]; the version is below
/// [`VERSION_END`]. A vendor class has a nonzero OUI, others have zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(Request);

impl Rule {
    /// Validates the request of an agent of queue pair `qp`. `rmpp`: whether it uses RMPP.
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

    /// Class and class version.
    pub const fn class(&self) -> (u8, u8) {
        (self.0.class, self.0.version)
    }

    const fn same_class(&self, other: &Self) -> bool {
        self.0.class == other.0.class && self.0.version == other.0.version
    }

    /// Returns whether some MAD matches both rules.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.same_class(other) && self.0.oui == other.0.oui && self.0.methods & other.0.methods != 0
    }

    /// Checks whether the rule may be added to `rules`.
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
                // OVERFLOW: `count` is an index of `vendors`.
                count += 1;
            }
        }
        if count < VENDORS {
            Ok(())
        } else {
            Err(Refused::Full)
        }
    }

    /// Returns whether the rule matches a MAD with this header.
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
