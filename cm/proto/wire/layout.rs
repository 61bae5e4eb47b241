// SPDX-License-Identifier: GPL-2.0

//! Byte layouts of the messages, and the way between bytes and values.
//!
//! Offsets in comments are those in `include/rdma/ibta_vol1_c12.h`: they count from the end of the
//! common MAD header. Fields of less than a byte have the most significant bit first.

use super::private;
use super::About;
use super::Apr;
use super::Body;
use super::CommId;
use super::Drep;
use super::Dreq;
use super::Ece;
use super::Gid;
use super::Guid;
use super::Kind;
use super::Lap;
use super::Message;
use super::Mra;
use super::Psn;
use super::Qpn;
use super::Reason;
use super::Rej;
use super::Rep;
use super::Req;
use super::Rtu;
use super::ServiceId;
use super::SidrRep;
use super::SidrReq;
use super::TooLong;
use super::Transport;
use super::WirePath;
use super::CLASS;
use super::CLASS_VERSION;
use super::MAD;
use super::METHOD;
use zerocopy::byteorder::big_endian::U16;
use zerocopy::byteorder::big_endian::U32;
use zerocopy::byteorder::big_endian::U64;
use zerocopy::FromBytes;
use zerocopy::IntoBytes;

/// Base version of a MAD.
const BASE_VERSION: u8 = 1;
/// Length of a message after the common header.
const REST: usize = MAD - size_of::<RawHeader>();

macro_rules! layouts {
    ($($(#[$doc:meta])* $len:literal $name:ident { $($field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(
                Clone,
                Copy,
                zerocopy_derive::FromBytes,
                zerocopy_derive::IntoBytes,
                zerocopy_derive::Immutable,
                zerocopy_derive::KnownLayout,
                zerocopy_derive::Unaligned,
            )]
            #[repr(C)]
            struct $name {
                $($field: $ty,)*
            }

            const _: () = assert!(size_of::<$name>() == $len);
        )*
    };
}

layouts! {
    24 RawHeader {
        base_version: u8, class: u8, class_version: u8, method: u8, status: U16, class_specific: U16,
        tid: U64, attr: U16, reserved: U16, attr_mod: U32,
    }
    /// `flow_rate`: flow label 20, reserved 6, rate 6. `sl_local`: SL 4, subnet local 1.
    /// `ack`: acknowledgement timeout 5.
    44 RawPath {
        local_lid: U16, remote_lid: U16, local_gid: [u8; 16], remote_gid: [u8; 16], flow_rate: U32,
        traffic_class: u8, hop_limit: u8, sl_local: u8, ack: u8,
    }
    /// Offset 5: vendor 24. 32: QPN 24, responder resources 8. 36: EECN 24, initiator depth 8.
    /// 40: EECN 24, remote response timeout 5, transport 2, flow control 1. 44: PSN 24, local
    /// response timeout 5, retries 3. 50: MTU 4, RDC 1, RNR retries 3. 51: CM retries 4, SRQ 1,
    /// extended transport 3.
    232 RawReq {
        local_id: U32, vendor: U32, service_id: U64, ca_guid: U64, reserved: U32, qkey: U32,
        qpn_resources: U32, eecn_depth: U32, eecn_flags: U32, psn_flags: U32, pkey: U16,
        mtu_rnr: u8, retries_srq: u8, primary: RawPath, alternate: RawPath,
        private: [u8; private::REQ],
    }
    /// `about`: 2. `timeout`: 5.
    232 RawMra {
        local_id: U32, remote_id: U32, about: u8, timeout: u8, private: [u8; private::MRA],
    }
    /// `about`: 2. `ari_len`: 7.
    232 RawRej {
        local_id: U32, remote_id: U32, about: u8, ari_len: u8, reason: U16,
        ari: [u8; private::INFO], private: [u8; private::REJ],
    }
    /// Offset 12: QPN 24, vendor 8. 16: EECN 24, vendor 8. 20: PSN 24, vendor 8. 26: ack delay 5,
    /// failover 2, flow control 1. 27: RNR retries 3, SRQ 1.
    232 RawRep {
        local_id: U32, remote_id: U32, qkey: U32, qpn_vendor: U32, eecn_vendor: U32,
        psn_vendor: U32, responder_resources: u8, initiator_depth: u8, ack_flags: u8, rnr_srq: u8,
        ca_guid: U64, private: [u8; private::REP],
    }
    /// RTU and DREP.
    232 RawIds { local_id: U32, remote_id: U32, private: [u8; private::RTU], }
    /// Offset 8: QPN 24.
    232 RawDreq { local_id: U32, remote_id: U32, qpn: U32, private: [u8; private::DREQ], }
    /// Offset 12: QPN 24, response timeout 5. 56: flow label 20, reserved 4, traffic class 8.
    /// 61: reserved 2, rate 6. 62: SL 4, subnet local 1. 63: acknowledgement timeout 5.
    232 RawLap {
        local_id: U32, remote_id: U32, reserved: U32, qpn_timeout: U32, reserved_2: U32,
        local_lid: U16, remote_lid: U16, local_gid: [u8; 16], remote_gid: [u8; 16],
        flow_class: U32, hop_limit: u8, rate: u8, sl_local: u8, ack: u8,
        private: [u8; private::LAP],
    }
    232 RawApr {
        local_id: U32, remote_id: U32, info_len: u8, status: u8, reserved: U16,
        info: [u8; private::INFO], private: [u8; private::APR],
    }
    232 RawSidrReq {
        request_id: U32, pkey: U16, reserved: U16, service_id: U64,
        private: [u8; private::SIDR_REQ],
    }
    /// Offset 6: vendor 16 (its upper bits). 8: QPN 24, vendor 8.
    232 RawSidrRep {
        request_id: U32, status: u8, info_len: u8, vendor_high: U16, qpn_vendor: U32,
        service_id: U64, qkey: U32, info: [u8; private::INFO], private: [u8; private::SIDR_REP],
    }
}

const _: () = assert!(private::DREP == private::RTU);

/// The upper 24 bits of a word.
fn upper_24(word: U32) -> u32 {
    word.get() >> 8
}

/// The lower 8 bits of a word.
fn low(word: U32) -> u8 {
    let [_, _, _, low] = word.get().to_be_bytes();
    low
}

/// A word of 24 and 8 bits.
const fn word(upper: u32, low: u8) -> U32 {
    // CAST: Widening.
    U32::new(upper << 8 | low as u32)
}

/// The only bit of a flag, at a distance from the lowest bit.
const fn flag(is_set: bool, up: u8) -> u8 {
    // CAST: 0 or 1. OVERFLOW: Callers pass constants below 8.
    (is_set as u8) << up
}

/// Writes the beginning of a field of fixed length.
fn set<const N: usize>(field: &mut [u8; N], data: &[u8]) -> Result<(), TooLong> {
    field
        .get_mut(..data.len())
        .ok_or(TooLong)?
        .copy_from_slice(data);
    Ok(())
}

/// The valid part of additional information. A length beyond the field is that of the field.
fn info(field: &[u8; private::INFO], len: u8) -> &[u8] {
    field.get(..usize::from(len)).unwrap_or(field)
}

/// Length of additional information that [`set`] accepted.
fn info_len(info: &[u8]) -> u8 {
    u8::try_from(info.len()).unwrap_or(u8::MAX)
}

impl About {
    const fn from_bits(byte: u8) -> Self {
        match byte >> 6 {
            0 => Self::Req,
            1 => Self::Rep,
            2 => Self::Other,
            _ => Self::Reserved,
        }
    }

    const fn to_bits(self) -> u8 {
        // CAST: The discriminant, 0 to 3.
        (self as u8) << 6
    }
}

impl Transport {
    const fn from_bits(basic: u8, extended: u8) -> Self {
        match (basic, extended) {
            (0, _) => Self::Rc,
            (1, _) => Self::Uc,
            (3, 1) => Self::Xrc,
            (basic, extended) => Self::Other(basic, extended),
        }
    }

    const fn to_bits(self) -> (u8, u8) {
        match self {
            Self::Rc => (0, 0),
            Self::Uc => (1, 0),
            Self::Xrc => (3, 1),
            Self::Other(basic, extended) => (basic & 3, extended & 7),
        }
    }
}

impl RawPath {
    fn get(&self) -> WirePath {
        WirePath {
            local_lid: self.local_lid.get(),
            remote_lid: self.remote_lid.get(),
            local_gid: Gid(self.local_gid),
            remote_gid: Gid(self.remote_gid),
            flow_label: self.flow_rate.get() >> 12,
            rate: low(self.flow_rate) & 0x3f,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            sl: self.sl_local >> 4,
            subnet_local: self.sl_local & 8 != 0,
            ack_timeout: self.ack >> 3,
        }
    }

    fn of(path: &WirePath) -> Self {
        Self {
            local_lid: U16::new(path.local_lid),
            remote_lid: U16::new(path.remote_lid),
            local_gid: path.local_gid.0,
            remote_gid: path.remote_gid.0,
            flow_rate: U32::new(path.flow_label << 12 | u32::from(path.rate & 0x3f)),
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            sl_local: path.sl << 4 | flag(path.subnet_local, 3),
            ack: path.ack_timeout << 3,
        }
    }
}

/// A message with a layout.
trait Layout<'a>: Sized + 'a {
    type Raw: FromBytes
        + IntoBytes
        + zerocopy::Immutable
        + zerocopy::KnownLayout
        + zerocopy::Unaligned;

    /// `attr_mod`: the attribute modifier of the header.
    fn get(raw: &'a Self::Raw, attr_mod: u32) -> Self;
    /// Writes over zeros.
    fn put(&self, raw: &mut Self::Raw) -> Result<(), TooLong>;

    fn parse(bytes: &'a [u8; REST], attr_mod: u32) -> Option<Self> {
        let raw = Self::Raw::ref_from_bytes(bytes.as_slice()).ok()?;
        Some(Self::get(raw, attr_mod))
    }

    fn write(&self, out: &mut [u8; REST]) -> Result<(), TooLong> {
        let raw = Self::Raw::mut_from_bytes(out.as_mut_slice()).map_err(|_| TooLong)?;
        self.put(raw)
    }
}

impl<'a> Layout<'a> for Req<'a> {
    type Raw = RawReq;

    fn get(raw: &'a RawReq, attr_mod: u32) -> Self {
        let flags = low(raw.eecn_flags);
        let timeout_retries = low(raw.psn_flags);
        let alternate = raw.alternate.get();
        Self {
            local_id: CommId(raw.local_id.get()),
            service_id: ServiceId(raw.service_id.get()),
            ca_guid: Guid(raw.ca_guid.get()),
            qkey: raw.qkey.get(),
            qpn: Qpn::new(upper_24(raw.qpn_resources)),
            responder_resources: low(raw.qpn_resources),
            initiator_depth: low(raw.eecn_depth),
            remote_response_timeout: flags >> 3,
            transport: Transport::from_bits(flags >> 1 & 3, raw.retries_srq & 7),
            flow_control: flags & 1 != 0,
            psn: Psn::new(upper_24(raw.psn_flags)),
            local_response_timeout: timeout_retries >> 3,
            retry_count: timeout_retries & 7,
            pkey: raw.pkey.get(),
            mtu: raw.mtu_rnr >> 4,
            rnr_retry_count: raw.mtu_rnr & 7,
            max_cm_retries: raw.retries_srq >> 4,
            srq: raw.retries_srq & 8 != 0,
            primary: raw.primary.get(),
            alternate: alternate.is_present().then_some(alternate),
            ece: Ece {
                vendor_id: raw.vendor.get() & 0x00ff_ffff,
                attr_mod,
            },
            private: &raw.private,
        }
    }

    fn put(&self, raw: &mut RawReq) -> Result<(), TooLong> {
        let (transport, extended) = self.transport.to_bits();
        raw.local_id = U32::new(self.local_id.0);
        raw.vendor = U32::new(self.ece.vendor_id & 0x00ff_ffff);
        raw.service_id = U64::new(self.service_id.0);
        raw.ca_guid = U64::new(self.ca_guid.0);
        raw.qkey = U32::new(self.qkey);
        raw.qpn_resources = word(self.qpn.get(), self.responder_resources);
        raw.eecn_depth = word(0, self.initiator_depth);
        raw.eecn_flags = word(
            0,
            self.remote_response_timeout << 3 | transport << 1 | flag(self.flow_control, 0),
        );
        raw.psn_flags = word(
            self.psn.get(),
            self.local_response_timeout << 3 | self.retry_count & 7,
        );
        raw.pkey = U16::new(self.pkey);
        raw.mtu_rnr = self.mtu << 4 | self.rnr_retry_count & 7;
        raw.retries_srq = self.max_cm_retries << 4 | flag(self.srq, 3) | extended;
        raw.primary = RawPath::of(&self.primary);
        raw.alternate = RawPath::of(&self.alternate.unwrap_or_default());
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

impl<'a> Layout<'a> for Mra<'a> {
    type Raw = RawMra;

    fn get(raw: &'a RawMra, _: u32) -> Self {
        Self {
            local_id: CommId(raw.local_id.get()),
            remote_id: CommId(raw.remote_id.get()),
            about: About::from_bits(raw.about),
            service_timeout: raw.timeout >> 3,
            private: &raw.private,
        }
    }

    fn put(&self, raw: &mut RawMra) -> Result<(), TooLong> {
        raw.local_id = U32::new(self.local_id.0);
        raw.remote_id = U32::new(self.remote_id.0);
        raw.about = self.about.to_bits();
        raw.timeout = self.service_timeout << 3;
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

impl<'a> Layout<'a> for Rej<'a> {
    type Raw = RawRej;

    fn get(raw: &'a RawRej, _: u32) -> Self {
        let guid = raw.ari.first_chunk().copied().unwrap_or_default();
        Self {
            local_id: CommId(raw.local_id.get()),
            remote_id: CommId(raw.remote_id.get()),
            about: About::from_bits(raw.about),
            reason: Reason(raw.reason.get()),
            ari: info(&raw.ari, raw.ari_len >> 1),
            private: &raw.private,
            ari_guid: Guid(u64::from_be_bytes(guid)),
        }
    }

    fn put(&self, raw: &mut RawRej) -> Result<(), TooLong> {
        raw.local_id = U32::new(self.local_id.0);
        raw.remote_id = U32::new(self.remote_id.0);
        raw.about = self.about.to_bits();
        raw.ari_len = info_len(self.ari) << 1;
        raw.reason = U16::new(self.reason.0);
        set(&mut raw.ari, self.ari)?;
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

impl<'a> Layout<'a> for Rep<'a> {
    type Raw = RawRep;

    fn get(raw: &'a RawRep, attr_mod: u32) -> Self {
        let vendor = [
            0,
            low(raw.qpn_vendor),
            low(raw.eecn_vendor),
            low(raw.psn_vendor),
        ];
        Self {
            local_id: CommId(raw.local_id.get()),
            remote_id: CommId(raw.remote_id.get()),
            qkey: raw.qkey.get(),
            qpn: Qpn::new(upper_24(raw.qpn_vendor)),
            eecn: Qpn::new(upper_24(raw.eecn_vendor)),
            psn: Psn::new(upper_24(raw.psn_vendor)),
            responder_resources: raw.responder_resources,
            initiator_depth: raw.initiator_depth,
            target_ack_delay: raw.ack_flags >> 3,
            failover_accepted: raw.ack_flags >> 1 & 3,
            flow_control: raw.ack_flags & 1 != 0,
            rnr_retry_count: raw.rnr_srq >> 5,
            srq: raw.rnr_srq & 0x10 != 0,
            ca_guid: Guid(raw.ca_guid.get()),
            ece: Ece {
                vendor_id: u32::from_be_bytes(vendor),
                attr_mod,
            },
            private: &raw.private,
        }
    }

    fn put(&self, raw: &mut RawRep) -> Result<(), TooLong> {
        let [_, high, middle, lower] = self.ece.vendor_id.to_be_bytes();
        raw.local_id = U32::new(self.local_id.0);
        raw.remote_id = U32::new(self.remote_id.0);
        raw.qkey = U32::new(self.qkey);
        raw.qpn_vendor = word(self.qpn.get(), high);
        raw.eecn_vendor = word(self.eecn.get(), middle);
        raw.psn_vendor = word(self.psn.get(), lower);
        raw.responder_resources = self.responder_resources;
        raw.initiator_depth = self.initiator_depth;
        raw.ack_flags = self.target_ack_delay << 3
            | (self.failover_accepted & 3) << 1
            | flag(self.flow_control, 0);
        raw.rnr_srq = self.rnr_retry_count << 5 | flag(self.srq, 4);
        raw.ca_guid = U64::new(self.ca_guid.0);
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

/// Messages of two communication IDs and private data.
macro_rules! layout_of_ids {
    ($($message:ident),*) => { $(
        impl<'a> Layout<'a> for $message<'a> {
            type Raw = RawIds;

            fn get(raw: &'a RawIds, _: u32) -> Self {
                Self {
                    local_id: CommId(raw.local_id.get()),
                    remote_id: CommId(raw.remote_id.get()),
                    private: &raw.private,
                }
            }

            fn put(&self, raw: &mut RawIds) -> Result<(), TooLong> {
        raw.local_id = U32::new(self.local_id.0);
        raw.remote_id = U32::new(self.remote_id.0);
        set(&mut raw.private, self.private)?;
        Ok(())
    }
        }
    )* };
}

layout_of_ids!(Rtu, Drep);

impl<'a> Layout<'a> for Dreq<'a> {
    type Raw = RawDreq;

    fn get(raw: &'a RawDreq, _: u32) -> Self {
        Self {
            local_id: CommId(raw.local_id.get()),
            remote_id: CommId(raw.remote_id.get()),
            remote_qpn: Qpn::new(upper_24(raw.qpn)),
            private: &raw.private,
        }
    }

    fn put(&self, raw: &mut RawDreq) -> Result<(), TooLong> {
        raw.local_id = U32::new(self.local_id.0);
        raw.remote_id = U32::new(self.remote_id.0);
        raw.qpn = word(self.remote_qpn.get(), 0);
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

impl<'a> Layout<'a> for Lap<'a> {
    type Raw = RawLap;

    fn get(raw: &'a RawLap, _: u32) -> Self {
        Self {
            local_id: CommId(raw.local_id.get()),
            remote_id: CommId(raw.remote_id.get()),
            remote_qpn: Qpn::new(upper_24(raw.qpn_timeout)),
            remote_response_timeout: low(raw.qpn_timeout) >> 3,
            alternate: WirePath {
                local_lid: raw.local_lid.get(),
                remote_lid: raw.remote_lid.get(),
                local_gid: Gid(raw.local_gid),
                remote_gid: Gid(raw.remote_gid),
                flow_label: raw.flow_class.get() >> 12,
                rate: raw.rate & 0x3f,
                traffic_class: low(raw.flow_class),
                hop_limit: raw.hop_limit,
                sl: raw.sl_local >> 4,
                subnet_local: raw.sl_local & 8 != 0,
                ack_timeout: raw.ack >> 3,
            },
            private: &raw.private,
        }
    }

    fn put(&self, raw: &mut RawLap) -> Result<(), TooLong> {
        let path = &self.alternate;
        raw.local_id = U32::new(self.local_id.0);
        raw.remote_id = U32::new(self.remote_id.0);
        raw.qpn_timeout = word(self.remote_qpn.get(), self.remote_response_timeout << 3);
        raw.local_lid = U16::new(path.local_lid);
        raw.remote_lid = U16::new(path.remote_lid);
        raw.local_gid = path.local_gid.0;
        raw.remote_gid = path.remote_gid.0;
        raw.flow_class = U32::new(path.flow_label << 12 | u32::from(path.traffic_class));
        raw.hop_limit = path.hop_limit;
        raw.rate = path.rate & 0x3f;
        raw.sl_local = path.sl << 4 | flag(path.subnet_local, 3);
        raw.ack = path.ack_timeout << 3;
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

impl<'a> Layout<'a> for Apr<'a> {
    type Raw = RawApr;

    fn get(raw: &'a RawApr, _: u32) -> Self {
        Self {
            local_id: CommId(raw.local_id.get()),
            remote_id: CommId(raw.remote_id.get()),
            status: raw.status,
            info: info(&raw.info, raw.info_len),
            private: &raw.private,
        }
    }

    fn put(&self, raw: &mut RawApr) -> Result<(), TooLong> {
        raw.local_id = U32::new(self.local_id.0);
        raw.remote_id = U32::new(self.remote_id.0);
        raw.info_len = info_len(self.info);
        raw.status = self.status;
        set(&mut raw.info, self.info)?;
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

impl<'a> Layout<'a> for SidrReq<'a> {
    type Raw = RawSidrReq;

    fn get(raw: &'a RawSidrReq, _: u32) -> Self {
        Self {
            request_id: CommId(raw.request_id.get()),
            pkey: raw.pkey.get(),
            service_id: ServiceId(raw.service_id.get()),
            private: &raw.private,
        }
    }

    fn put(&self, raw: &mut RawSidrReq) -> Result<(), TooLong> {
        raw.request_id = U32::new(self.request_id.0);
        raw.pkey = U16::new(self.pkey);
        raw.service_id = U64::new(self.service_id.0);
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

impl<'a> Layout<'a> for SidrRep<'a> {
    type Raw = RawSidrRep;

    fn get(raw: &'a RawSidrRep, attr_mod: u32) -> Self {
        let [high, middle] = raw.vendor_high.get().to_be_bytes();
        Self {
            request_id: CommId(raw.request_id.get()),
            status: raw.status,
            qpn: Qpn::new(upper_24(raw.qpn_vendor)),
            service_id: ServiceId(raw.service_id.get()),
            qkey: raw.qkey.get(),
            ece: Ece {
                vendor_id: u32::from_be_bytes([0, high, middle, low(raw.qpn_vendor)]),
                attr_mod,
            },
            info: info(&raw.info, raw.info_len),
            private: &raw.private,
        }
    }

    fn put(&self, raw: &mut RawSidrRep) -> Result<(), TooLong> {
        let [_, high, middle, lower] = self.ece.vendor_id.to_be_bytes();
        raw.request_id = U32::new(self.request_id.0);
        raw.status = self.status;
        raw.info_len = info_len(self.info);
        raw.vendor_high = U16::from_bytes([high, middle]);
        raw.qpn_vendor = word(self.qpn.get(), lower);
        raw.service_id = U64::new(self.service_id.0);
        raw.qkey = U32::new(self.qkey);
        set(&mut raw.info, self.info)?;
        set(&mut raw.private, self.private)?;
        Ok(())
    }
}

impl<'a> Message<'a> {
    /// Parses a MAD. `None` if it is not 256 bytes long, or no message that the CM knows.
    pub fn parse(mad: &'a [u8]) -> Option<Self> {
        let mad: &[u8; MAD] = mad.try_into().ok()?;
        let (header, rest) = RawHeader::ref_from_prefix(mad.as_slice()).ok()?;
        let rest: &[u8; REST] = rest.try_into().ok()?;
        let is_cm = header.class == CLASS
            && header.class_version == CLASS_VERSION
            && header.method == METHOD;
        let kind = Kind::from_attr(header.attr.get()).filter(|_| is_cm)?;
        let attr_mod = header.attr_mod.get();
        let body = match kind {
            Kind::Req => Body::Req(Req::parse(rest, attr_mod)?),
            Kind::Mra => Body::Mra(Mra::parse(rest, attr_mod)?),
            Kind::Rej => Body::Rej(Rej::parse(rest, attr_mod)?),
            Kind::Rep => Body::Rep(Rep::parse(rest, attr_mod)?),
            Kind::Rtu => Body::Rtu(Rtu::parse(rest, attr_mod)?),
            Kind::Dreq => Body::Dreq(Dreq::parse(rest, attr_mod)?),
            Kind::Drep => Body::Drep(Drep::parse(rest, attr_mod)?),
            Kind::SidrReq => Body::SidrReq(SidrReq::parse(rest, attr_mod)?),
            Kind::SidrRep => Body::SidrRep(SidrRep::parse(rest, attr_mod)?),
            Kind::Lap => Body::Lap(Lap::parse(rest, attr_mod)?),
            Kind::Apr => Body::Apr(Apr::parse(rest, attr_mod)?),
        };
        Some(Self {
            tid: header.tid.get(),
            body,
        })
    }

    /// Writes the message to a MAD, of which every byte is written.
    ///
    /// # Errors
    ///
    /// [`TooLong`]; the MAD is then not a message.
    pub fn write(&self, mad: &mut [u8; MAD]) -> Result<(), TooLong> {
        mad.fill(0);
        self.write_over_zeros(mad)
    }

    /// As [`write`](Self::write), but to a MAD that is all zeros.
    ///
    /// # Errors
    ///
    /// [`TooLong`]; the MAD is then not a message.
    pub fn write_over_zeros(&self, mad: &mut [u8; MAD]) -> Result<(), TooLong> {
        let (first, rest) = mad
            .split_first_chunk_mut::<{ size_of::<RawHeader>() }>()
            .ok_or(TooLong)?;
        let rest: &mut [u8; REST] = rest.try_into().map_err(|_| TooLong)?;
        let attr_mod = match &self.body {
            Body::Req(m) => m.ece.attr_mod,
            Body::Rep(m) => m.ece.attr_mod,
            Body::SidrRep(m) => m.ece.attr_mod,
            Body::Mra(_)
            | Body::Rej(_)
            | Body::Rtu(_)
            | Body::Dreq(_)
            | Body::Drep(_)
            | Body::SidrReq(_)
            | Body::Lap(_)
            | Body::Apr(_) => 0,
        };
        *first = zerocopy::transmute!(RawHeader {
            base_version: BASE_VERSION,
            class: CLASS,
            class_version: CLASS_VERSION,
            method: METHOD,
            status: U16::ZERO,
            class_specific: U16::ZERO,
            tid: U64::new(self.tid),
            attr: U16::new(self.body.kind().attr()),
            reserved: U16::ZERO,
            attr_mod: U32::new(attr_mod),
        });
        match &self.body {
            Body::Req(m) => m.write(rest),
            Body::Mra(m) => m.write(rest),
            Body::Rej(m) => m.write(rest),
            Body::Rep(m) => m.write(rest),
            Body::Rtu(m) => m.write(rest),
            Body::Dreq(m) => m.write(rest),
            Body::Drep(m) => m.write(rest),
            Body::SidrReq(m) => m.write(rest),
            Body::SidrRep(m) => m.write(rest),
            Body::Lap(m) => m.write(rest),
            Body::Apr(m) => m.write(rest),
        }
    }
}
