// SPDX-License-Identifier: GPL-2.0

//! The header that all MADs have, and what follows from the class of one.

/// Bytes of a MAD of InfiniBand.
pub const MAD_SIZE: usize = 256;
/// Bytes of a MAD of Omni-Path, at most.
pub const OPA_MAD_SIZE: usize = 2048;
/// Bytes of the common header.
pub const HEADER: usize = 24;
/// Bytes of the common header and that of RMPP.
pub const RMPP_HEADER: usize = 36;

/// Base version of InfiniBand, and of Omni-Path.
pub const VERSION: u8 = 1;
/// See [`VERSION`].
pub const OPA_VERSION: u8 = 0x80;

/// Numbers of classes.
pub mod class {
    /// Subnet management by LID.
    pub const SMI_LID: u8 = 0x01;
    /// Subnet management on a directed route.
    pub const SMI_DIRECTED: u8 = 0x81;
    /// Subnet administration.
    pub const SA: u8 = 0x03;
    /// Baseboard management.
    pub const BM: u8 = 0x05;
    /// Device management.
    pub const DEVICE_MGMT: u8 = 0x06;
    /// Communication management.
    pub const CM: u8 = 0x07;
    /// Device administration.
    pub const DEVICE_ADM: u8 = 0x10;
    /// Booting.
    pub const BIS: u8 = 0x12;
    /// Vendors' classes that have an OUI.
    pub const VENDOR_FIRST: u8 = 0x30;
    /// See [`VENDOR_FIRST`].
    pub const VENDOR_LAST: u8 = 0x4f;
}

/// Numbers of methods.
pub mod method {
    /// Get.
    pub const GET: u8 = 0x01;
    /// Set.
    pub const SET: u8 = 0x02;
    /// Send.
    pub const SEND: u8 = 0x03;
    /// Trap repress.
    pub const TRAP_REPRESS: u8 = 0x07;
    /// The bit of responses.
    pub const RESPONSE: u8 = 0x80;
    /// Response to Get and to Set.
    pub const GET_RESP: u8 = 0x81;
}

/// The attribute `ClassPortInfo`.
pub const CLASS_PORT_INFO: u16 = 1;

/// Whether subnet management packets of this class go by queue pair 0.
pub const fn is_smi(class: u8) -> bool {
    matches!(class, class::SMI_LID | class::SMI_DIRECTED)
}

/// Whether a class is a vendor's, whose MADs carry an OUI.
pub const fn is_vendor(class: u8) -> bool {
    matches!(class, class::VENDOR_FIRST..=class::VENDOR_LAST)
}

/// Whether MADs of a class have a header of RMPP.
pub const fn has_rmpp(class: u8) -> bool {
    matches!(
        class,
        class::SA | class::DEVICE_MGMT | class::DEVICE_ADM | class::BIS
    ) || is_vendor(class)
}

/// Where the data begins in a MAD of a class, in bytes.
pub const fn data_offset(class: u8) -> usize {
    match class {
        class::SA => 56,
        class::DEVICE_MGMT | class::DEVICE_ADM | class::BIS => 64,
        class::VENDOR_FIRST..=class::VENDOR_LAST => 40,
        _ => HEADER,
    }
}

/// A queue pair for management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Queue pair 0: subnet management.
    Smi,
    /// Queue pair 1: everything else.
    Gsi,
}

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of what is common to all MADs.
    pub base_version: u8,
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Method, with the bit of responses.
    pub method: u8,
    /// Transaction.
    pub tid: u64,
    /// Attribute.
    pub attr: u16,
    /// Modifier of the attribute.
    pub attr_mod: u32,
}

/// `N` bytes of a MAD from a place on.
pub(super) fn bytes<const N: usize>(mad: &[u8], at: usize) -> Option<[u8; N]> {
    mad.get(at..)?.first_chunk().copied()
}

impl Header {
    /// Reads the header; none, if the MAD is too short for one.
    pub fn parse(mad: &[u8]) -> Option<Self> {
        let [base_version, class, class_version, method] = bytes(mad, 0)?;
        Some(Self {
            base_version,
            class,
            class_version,
            method,
            tid: u64::from_be_bytes(bytes(mad, 8)?),
            attr: u16::from_be_bytes(bytes(mad, 16)?),
            attr_mod: u32::from_be_bytes(bytes(mad, 20)?),
        })
    }

    /// Whether it answers something that was sent from here.
    pub const fn is_response(&self) -> bool {
        self.method & method::RESPONSE != 0
            || self.method == method::TRAP_REPRESS
            || (self.class == class::BM && self.attr_mod & 1 != 0)
    }

    /// Whether it may come by a queue pair. `opa`: the port is of Omni-Path.
    pub const fn is_admissible(&self, qp: Special, opa: bool) -> bool {
        let version_known =
            self.base_version == VERSION || (opa && self.base_version == OPA_VERSION);
        if !version_known {
            return false;
        }
        match qp {
            Special::Smi => is_smi(self.class),
            Special::Gsi => {
                !is_smi(self.class)
                    // Communication management knows one method, but for ClassPortInfo.
                    && (self.class != class::CM
                        || self.attr == CLASS_PORT_INFO
                        || self.method == method::SEND)
            }
        }
    }

    /// Whether the sender waits for an answer even if nobody here knows the attribute.
    pub const fn wants_refusal(&self) -> bool {
        matches!(self.method, method::GET | method::SET)
    }
}

/// The OUI of a vendor's MAD.
pub fn oui(mad: &[u8]) -> Option<[u8; 3]> {
    bytes(mad, 37)
}

/// How a message is laid out in one MAD, or in many of RMPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of one MAD.
    pub mad_size: usize,
    /// Bytes of the headers that each MAD begins with.
    pub header: usize,
    /// Bytes of data.
    pub data: usize,
    /// Bytes of zeros after the data.
    pub pad: usize,
    /// How many MADs carry the data, if it is RMPP's; else 0.
    pub segments: usize,
}

impl Layout {
    /// Lays out a message. `rmpp`: in segments. None, if the headers leave no place for
    /// data in a MAD, or if the data does not fit into the one MAD that there is.
    pub fn new(mad_size: usize, header: usize, data: usize, rmpp: bool) -> Option<Self> {
        let room = mad_size.checked_sub(header)?;
        let least = if rmpp { RMPP_HEADER } else { 0 };
        if header < least || (rmpp && room == 0) {
            return None;
        }
        // A message without data takes a MAD, too.
        let segments = if room == 0 {
            1
        } else {
            data.div_ceil(room).max(1)
        };
        let pad = segments.checked_mul(room)?.checked_sub(data)?;
        if !rmpp && segments > 1 {
            return None;
        }
        Some(Self {
            mad_size,
            header,
            data,
            pad,
            segments: if rmpp { segments } else { 0 },
        })
    }

    /// Bytes of data in each segment.
    pub const fn segment(&self) -> usize {
        // OVERFLOW: `new` saw that the header fits.
        self.mad_size - self.header
    }

    /// Bytes in each segment as RMPP counts them: from its own header on.
    pub const fn rmpp_segment(&self) -> usize {
        self.mad_size.saturating_sub(RMPP_HEADER)
    }
}
