// SPDX-License-Identifier: GPL-2.0

//! The common MAD header, and properties of management classes.

/// Size of an InfiniBand MAD in bytes.
pub const MAD_SIZE: usize = 256;
/// Maximum size of an Omni-Path MAD in bytes.
pub const OPA_MAD_SIZE: usize = 2048;
/// Size of the common header in bytes.
pub const HEADER: usize = 24;
/// Size of the common and the RMPP header in bytes.
pub const RMPP_HEADER: usize = 36;

/// Base version of InfiniBand MADs.
pub const VERSION: u8 = 1;
/// Base version of Omni-Path MADs.
pub const OPA_VERSION: u8 = 0x80;

/// Management classes.
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
    /// Boot management.
    pub const BIS: u8 = 0x12;
    /// First vendor class with an OUI.
    pub const VENDOR_FIRST: u8 = 0x30;
    /// Last vendor class with an OUI.
    pub const VENDOR_LAST: u8 = 0x4f;
}

/// Methods.
pub mod method {
    /// Get.
    pub const GET: u8 = 0x01;
    /// Set.
    pub const SET: u8 = 0x02;
    /// Send.
    pub const SEND: u8 = 0x03;
    /// Trap repress.
    pub const TRAP_REPRESS: u8 = 0x07;
    /// The response bit.
    pub const RESPONSE: u8 = 0x80;
    /// Response to Get and to Set.
    pub const GET_RESP: u8 = 0x81;
}

/// The attribute `ClassPortInfo`.
pub const CLASS_PORT_INFO: u16 = 1;

/// Returns whether a class is a subnet management class, which uses queue pair 0.
pub const fn is_smi(class: u8) -> bool {
    matches!(class, class::SMI_LID | class::SMI_DIRECTED)
}

/// Returns whether a class is a vendor class whose MADs carry an OUI.
pub const fn is_vendor(class: u8) -> bool {
    matches!(class, class::VENDOR_FIRST..=class::VENDOR_LAST)
}

/// Returns whether MADs of a class have an RMPP header.
pub const fn has_rmpp(class: u8) -> bool {
    matches!(
        class,
        class::SA | class::DEVICE_MGMT | class::DEVICE_ADM | class::BIS
    ) || is_vendor(class)
}

/// Offset of the data in a MAD of a class, in bytes.
pub const fn data_offset(class: u8) -> usize {
    match class {
        class::SA => 56,
        class::DEVICE_MGMT | class::DEVICE_ADM | class::BIS => 64,
        class::VENDOR_FIRST..=class::VENDOR_LAST => 40,
        _ => HEADER,
    }
}

/// A special queue pair.
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
    /// Base version of management datagrams.
    pub base_version: u8,
    /// Management class.
    pub class: u8,
    /// Class version.
    pub class_version: u8,
    /// Method, including the response bit.
    pub method: u8,
    /// Transaction id.
    pub tid: u64,
    /// Attribute.
    pub attr: u16,
    /// Attribute modifier.
    pub attr_mod: u32,
}

/// `N` bytes of a MAD at an offset.
pub(super) fn bytes<const N: usize>(mad: &[u8], at: usize) -> Option<[u8; N]> {
    mad.get(at..)?.first_chunk().copied()
}

impl Header {
    /// Parses the header; `None` if the MAD is too short.
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

    /// Returns whether the MAD is a response to a MAD of this node.
    pub const fn is_response(&self) -> bool {
        self.method & method::RESPONSE != 0
            || self.method == method::TRAP_REPRESS
            || (self.class == class::BM && self.attr_mod & 1 != 0)
    }

    /// Returns whether the MAD may be received on a queue pair. `opa`: whether it is an Omni-Path
    /// port.
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
                    // Communication management has a single method, except for ClassPortInfo.
                    && (self.class != class::CM
                        || self.attr == CLASS_PORT_INFO
                        || self.method == method::SEND)
            }
        }
    }

    /// Returns whether the sender expects a response even if no agent here handles the attribute.
    pub const fn wants_refusal(&self) -> bool {
        matches!(self.method, method::GET | method::SET)
    }
}

/// The OUI of a vendor class MAD.
pub fn oui(mad: &[u8]) -> Option<[u8; 3]> {
    bytes(mad, 37)
}

/// Layout of a message in one MAD, or in the segments of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of a MAD in bytes.
    pub mad_size: usize,
    /// Size of the headers at the start of each MAD, in bytes.
    pub header: usize,
    /// Size of the data in bytes.
    pub data: usize,
    /// Number of padding bytes after the data.
    pub pad: usize,
    /// Number of RMPP segments that carry the data; 0 without RMPP.
    pub segments: usize,
}

impl Layout {
    /// Computes the layout of a message. `rmpp`: in segments. `None` if the headers leave no space
    /// for data in a segment, or if the data does not fit into a single MAD.
    pub fn new(mad_size: usize, header: usize, data: usize, rmpp: bool) -> Option<Self> {
        let room = mad_size.checked_sub(header)?;
        let least = if rmpp { RMPP_HEADER } else { 0 };
        if header < least || (rmpp && room == 0) {
            return None;
        }
        // A message without data takes one MAD.
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

    /// Size of the data in each segment, in bytes.
    pub const fn segment(&self) -> usize {
        // OVERFLOW: `new` checked that the header fits.
        self.mad_size - self.header
    }

    /// Size of a segment in bytes as RMPP counts it: without the RMPP header.
    pub const fn rmpp_segment(&self) -> usize {
        self.mad_size.saturating_sub(RMPP_HEADER)
    }
}
