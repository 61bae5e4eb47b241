// SPDX-License-Identifier: GPL-2.0

//! Messages: what is written is parsed, what is parsed is written, and fields are where the
//! header of the C module says.

use rdma_cm_engine::proto::ids::CommId;
use rdma_cm_engine::proto::ids::Ece;
use rdma_cm_engine::proto::ids::Gid;
use rdma_cm_engine::proto::ids::Guid;
use rdma_cm_engine::proto::ids::Psn;
use rdma_cm_engine::proto::ids::Qpn;
use rdma_cm_engine::proto::ids::ServiceId;
use rdma_cm_engine::proto::wire::private;
use rdma_cm_engine::proto::wire::About;
use rdma_cm_engine::proto::wire::Apr;
use rdma_cm_engine::proto::wire::Body;
use rdma_cm_engine::proto::wire::Drep;
use rdma_cm_engine::proto::wire::Dreq;
use rdma_cm_engine::proto::wire::Kind;
use rdma_cm_engine::proto::wire::Lap;
use rdma_cm_engine::proto::wire::Message;
use rdma_cm_engine::proto::wire::Mra;
use rdma_cm_engine::proto::wire::Reason;
use rdma_cm_engine::proto::wire::Rej;
use rdma_cm_engine::proto::wire::Rep;
use rdma_cm_engine::proto::wire::Req;
use rdma_cm_engine::proto::wire::Rtu;
use rdma_cm_engine::proto::wire::SidrRep;
use rdma_cm_engine::proto::wire::SidrReq;
use rdma_cm_engine::proto::wire::TooLong;
use rdma_cm_engine::proto::wire::Transport;
use rdma_cm_engine::proto::wire::WirePath;
use rdma_cm_engine::proto::wire::MAD;
use rdma_cm_engine::rng::Rng;

/// A field of a message: its kind, the offset in bytes after the common header, the offset in bits
/// from the upper end of that byte, its width in bits, and its value.
type Field = (Kind, usize, usize, usize, fn(&Body<'_>) -> u64);

macro_rules! field {
    ($kind:ident $byte:literal : $bit:literal, $width:literal, $m:ident => $value:expr) => {
        (Kind::$kind, $byte, $bit, $width, |body| match body {
            Body::$kind($m) => u64::from($value),
            _ => unreachable!(),
        })
    };
}

/// Fields of `include/rdma/ibta_vol1_c12.h` of up to 64 bits.
const FIELDS: &[Field] = &[
    field!(Req 0:0, 32, m => m.local_id.0),
    field!(Req 5:0, 24, m => m.ece.vendor_id),
    field!(Req 8:0, 64, m => m.service_id.0),
    field!(Req 16:0, 64, m => m.ca_guid.0),
    field!(Req 28:0, 32, m => m.qkey),
    field!(Req 32:0, 24, m => m.qpn.get()),
    field!(Req 35:0, 8, m => m.responder_resources),
    field!(Req 39:0, 8, m => m.initiator_depth),
    field!(Req 43:0, 5, m => m.remote_response_timeout),
    field!(Req 43:7, 1, m => m.flow_control),
    field!(Req 44:0, 24, m => m.psn.get()),
    field!(Req 47:0, 5, m => m.local_response_timeout),
    field!(Req 47:5, 3, m => m.retry_count),
    field!(Req 48:0, 16, m => m.pkey),
    field!(Req 50:0, 4, m => m.mtu),
    field!(Req 50:5, 3, m => m.rnr_retry_count),
    field!(Req 51:0, 4, m => m.max_cm_retries),
    field!(Req 51:4, 1, m => m.srq),
    field!(Req 52:0, 16, m => m.primary.local_lid),
    field!(Req 54:0, 16, m => m.primary.remote_lid),
    field!(Req 56:0, 64, m => half(m.primary.local_gid)),
    field!(Req 72:0, 64, m => half(m.primary.remote_gid)),
    field!(Req 88:0, 20, m => m.primary.flow_label),
    field!(Req 91:2, 6, m => m.primary.rate),
    field!(Req 92:0, 8, m => m.primary.traffic_class),
    field!(Req 93:0, 8, m => m.primary.hop_limit),
    field!(Req 94:0, 4, m => m.primary.sl),
    field!(Req 94:4, 1, m => m.primary.subnet_local),
    field!(Req 95:0, 5, m => m.primary.ack_timeout),
    field!(Req 96:0, 16, m => m.alternate.unwrap().local_lid),
    field!(Req 98:0, 16, m => m.alternate.unwrap().remote_lid),
    field!(Req 100:0, 64, m => half(m.alternate.unwrap().local_gid)),
    field!(Req 116:0, 64, m => half(m.alternate.unwrap().remote_gid)),
    field!(Req 132:0, 20, m => m.alternate.unwrap().flow_label),
    field!(Req 135:2, 6, m => m.alternate.unwrap().rate),
    field!(Req 136:0, 8, m => m.alternate.unwrap().traffic_class),
    field!(Req 137:0, 8, m => m.alternate.unwrap().hop_limit),
    field!(Req 138:0, 4, m => m.alternate.unwrap().sl),
    field!(Req 138:4, 1, m => m.alternate.unwrap().subnet_local),
    field!(Req 139:0, 5, m => m.alternate.unwrap().ack_timeout),
    field!(Mra 0:0, 32, m => m.local_id.0),
    field!(Mra 4:0, 32, m => m.remote_id.0),
    field!(Mra 8:0, 2, m => m.about as u8),
    field!(Mra 9:0, 5, m => m.service_timeout),
    field!(Rej 0:0, 32, m => m.local_id.0),
    field!(Rej 4:0, 32, m => m.remote_id.0),
    field!(Rej 8:0, 2, m => m.about as u8),
    field!(Rej 9:0, 7, m => m.ari.len() as u8),
    field!(Rej 10:0, 16, m => m.reason.0),
    field!(Rej 12:0, 64, m => m.ari_guid.0),
    field!(Rep 0:0, 32, m => m.local_id.0),
    field!(Rep 4:0, 32, m => m.remote_id.0),
    field!(Rep 8:0, 32, m => m.qkey),
    field!(Rep 12:0, 24, m => m.qpn.get()),
    field!(Rep 15:0, 8, m => m.ece.vendor_id >> 16),
    field!(Rep 16:0, 24, m => m.eecn.get()),
    field!(Rep 19:0, 8, m => m.ece.vendor_id >> 8 & 0xff),
    field!(Rep 20:0, 24, m => m.psn.get()),
    field!(Rep 23:0, 8, m => m.ece.vendor_id & 0xff),
    field!(Rep 24:0, 8, m => m.responder_resources),
    field!(Rep 25:0, 8, m => m.initiator_depth),
    field!(Rep 26:0, 5, m => m.target_ack_delay),
    field!(Rep 26:5, 2, m => m.failover_accepted),
    field!(Rep 26:7, 1, m => m.flow_control),
    field!(Rep 27:0, 3, m => m.rnr_retry_count),
    field!(Rep 27:3, 1, m => m.srq),
    field!(Rep 28:0, 64, m => m.ca_guid.0),
    field!(Rtu 0:0, 32, m => m.local_id.0),
    field!(Rtu 4:0, 32, m => m.remote_id.0),
    field!(Dreq 0:0, 32, m => m.local_id.0),
    field!(Dreq 4:0, 32, m => m.remote_id.0),
    field!(Dreq 8:0, 24, m => m.remote_qpn.get()),
    field!(Drep 0:0, 32, m => m.local_id.0),
    field!(Drep 4:0, 32, m => m.remote_id.0),
    field!(Lap 0:0, 32, m => m.local_id.0),
    field!(Lap 4:0, 32, m => m.remote_id.0),
    field!(Lap 12:0, 24, m => m.remote_qpn.get()),
    field!(Lap 15:0, 5, m => m.remote_response_timeout),
    field!(Lap 20:0, 16, m => m.alternate.local_lid),
    field!(Lap 22:0, 16, m => m.alternate.remote_lid),
    field!(Lap 24:0, 64, m => half(m.alternate.local_gid)),
    field!(Lap 40:0, 64, m => half(m.alternate.remote_gid)),
    field!(Lap 56:0, 20, m => m.alternate.flow_label),
    field!(Lap 59:0, 8, m => m.alternate.traffic_class),
    field!(Lap 60:0, 8, m => m.alternate.hop_limit),
    field!(Lap 61:2, 6, m => m.alternate.rate),
    field!(Lap 62:0, 4, m => m.alternate.sl),
    field!(Lap 62:4, 1, m => m.alternate.subnet_local),
    field!(Lap 63:0, 5, m => m.alternate.ack_timeout),
    field!(Apr 0:0, 32, m => m.local_id.0),
    field!(Apr 4:0, 32, m => m.remote_id.0),
    field!(Apr 8:0, 8, m => m.info.len() as u8),
    field!(Apr 9:0, 8, m => m.status),
    field!(SidrReq 0:0, 32, m => m.request_id.0),
    field!(SidrReq 4:0, 16, m => m.pkey),
    field!(SidrReq 8:0, 64, m => m.service_id.0),
    field!(SidrRep 0:0, 32, m => m.request_id.0),
    field!(SidrRep 4:0, 8, m => m.status),
    field!(SidrRep 5:0, 8, m => m.info.len() as u8),
    field!(SidrRep 6:0, 16, m => m.ece.vendor_id >> 8),
    field!(SidrRep 8:0, 24, m => m.qpn.get()),
    field!(SidrRep 11:0, 8, m => m.ece.vendor_id & 0xff),
    field!(SidrRep 12:0, 64, m => m.service_id.0),
    field!(SidrRep 20:0, 32, m => m.qkey),
];

/// Offset of private data after the common header, and its length.
const PRIVATE: &[(Kind, usize, usize)] = &[
    (Kind::Req, 140, 92),
    (Kind::Mra, 10, 222),
    (Kind::Rej, 84, 148),
    (Kind::Rep, 36, 196),
    (Kind::Rtu, 8, 224),
    (Kind::Dreq, 12, 220),
    (Kind::Drep, 8, 224),
    (Kind::SidrReq, 16, 216),
    (Kind::SidrRep, 96, 136),
    (Kind::Lap, 64, 168),
    (Kind::Apr, 84, 148),
];

fn half(gid: Gid) -> u64 {
    u64::from_be_bytes(gid.0[..8].try_into().unwrap())
}

fn path(rng: &mut Rng) -> WirePath {
    let mut gids = [[0; 16]; 2];
    rng.fill(&mut gids[0]);
    rng.fill(&mut gids[1]);
    WirePath {
        local_lid: rng.word() as u16 | 1,
        remote_lid: rng.word() as u16,
        local_gid: Gid(gids[0]),
        remote_gid: Gid(gids[1]),
        flow_label: rng.word() >> 12,
        rate: rng.byte() >> 2,
        traffic_class: rng.byte(),
        hop_limit: rng.byte(),
        sl: rng.byte() >> 4,
        subnet_local: rng.byte() & 1 != 0,
        ack_timeout: rng.byte() >> 3,
    }
}

/// A message of a kind with any values, and private data of full length out of `data`.
pub(crate) fn any_message<'a>(kind: Kind, data: &'a [u8; 512], rng: &mut Rng) -> Message<'a> {
    let (data, info) = data.split_at(256);
    let info = &info[..rng.below(private::INFO + 1)];
    let local_id = CommId(rng.word());
    let remote_id = CommId(rng.word());
    let about = [About::Req, About::Rep, About::Other, About::Reserved][rng.below(4)];
    let ece = Ece {
        vendor_id: rng.word() >> 8,
        attr_mod: rng.word(),
    };
    let transport = match rng.below(5) {
        0 => Transport::Rc,
        1 => Transport::Uc,
        2 => Transport::Xrc,
        3 => Transport::Other(2, rng.byte() & 7),
        _ => Transport::Other(3, [0, 2, 3, 4, 5, 6, 7][rng.below(7)]),
    };
    let body = match kind {
        Kind::Req => Body::Req(Req {
            local_id,
            service_id: ServiceId(rng.any()),
            ca_guid: Guid(rng.any()),
            qkey: rng.word(),
            qpn: Qpn::new(rng.word()),
            responder_resources: rng.byte(),
            initiator_depth: rng.byte(),
            remote_response_timeout: rng.byte() >> 3,
            transport,
            flow_control: rng.byte() & 1 != 0,
            psn: Psn::new(rng.word()),
            local_response_timeout: rng.byte() >> 3,
            retry_count: rng.byte() >> 5,
            pkey: rng.word() as u16,
            mtu: rng.byte() >> 4,
            rnr_retry_count: rng.byte() >> 5,
            max_cm_retries: rng.byte() >> 4,
            srq: rng.byte() & 1 != 0,
            primary: path(rng),
            alternate: (rng.below(2) == 0).then(|| path(rng)),
            ece,
            private: &data[..private::REQ],
        }),
        Kind::Mra => Body::Mra(Mra {
            local_id,
            remote_id,
            about,
            service_timeout: rng.byte() >> 3,
            private: &data[..private::MRA],
        }),
        Kind::Rej => {
            let mut guid = [0; 8];
            let len = info.len().min(8);
            guid[..len].copy_from_slice(&info[..len]);
            Body::Rej(Rej {
                local_id,
                remote_id,
                about,
                reason: Reason(rng.word() as u16),
                ari: info,
                private: &data[..private::REJ],
                ari_guid: Guid(u64::from_be_bytes(guid)),
            })
        }
        Kind::Rep => Body::Rep(Rep {
            local_id,
            remote_id,
            qkey: rng.word(),
            qpn: Qpn::new(rng.word()),
            eecn: Qpn::new(rng.word()),
            psn: Psn::new(rng.word()),
            responder_resources: rng.byte(),
            initiator_depth: rng.byte(),
            target_ack_delay: rng.byte() >> 3,
            failover_accepted: rng.byte() >> 6,
            flow_control: rng.byte() & 1 != 0,
            rnr_retry_count: rng.byte() >> 5,
            srq: rng.byte() & 1 != 0,
            ca_guid: Guid(rng.any()),
            ece,
            private: &data[..private::REP],
        }),
        Kind::Rtu => Body::Rtu(Rtu {
            local_id,
            remote_id,
            private: &data[..private::RTU],
        }),
        Kind::Dreq => Body::Dreq(Dreq {
            local_id,
            remote_id,
            remote_qpn: Qpn::new(rng.word()),
            private: &data[..private::DREQ],
        }),
        Kind::Drep => Body::Drep(Drep {
            local_id,
            remote_id,
            private: &data[..private::DREP],
        }),
        Kind::SidrReq => Body::SidrReq(SidrReq {
            request_id: local_id,
            pkey: rng.word() as u16,
            service_id: ServiceId(rng.any()),
            private: &data[..private::SIDR_REQ],
        }),
        Kind::SidrRep => Body::SidrRep(SidrRep {
            request_id: local_id,
            status: rng.byte(),
            qpn: Qpn::new(rng.word()),
            service_id: ServiceId(rng.any()),
            qkey: rng.word(),
            ece,
            info,
            private: &data[..private::SIDR_REP],
        }),
        Kind::Lap => Body::Lap(Lap {
            local_id,
            remote_id,
            remote_qpn: Qpn::new(rng.word()),
            remote_response_timeout: rng.byte() >> 3,
            alternate: path(rng),
            private: &data[..private::LAP],
        }),
        Kind::Apr => Body::Apr(Apr {
            local_id,
            remote_id,
            status: rng.byte(),
            info,
            private: &data[..private::APR],
        }),
    };
    Message {
        tid: rng.any(),
        body,
    }
}

/// Bits of a MAD.
fn bits(mad: &[u8; MAD], byte: usize, bit: usize, width: usize) -> u64 {
    let mut value = 0;
    for at in byte * 8 + bit..byte * 8 + bit + width {
        value = value << 1 | u64::from(mad[at / 8] >> (7 - at % 8) & 1);
    }
    value
}

#[test]
fn what_is_written_is_parsed() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let mut data = [0; 512];
        rng.fill(&mut data);
        for kind in Kind::ALL {
            let message = any_message(kind, &data, &mut rng);
            let mut mad = [0xff; MAD];
            message.write(&mut mad).unwrap();
            assert_eq!(Message::parse(&mad), Some(message), "seed {seed}");
        }
    }
}

#[test]
fn fields_are_where_the_header_says() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut data = [0; 512];
        rng.fill(&mut data);
        for &(kind, byte, bit, width, value) in FIELDS {
            let mut message = any_message(kind, &data, &mut rng);
            if let Body::Req(req) = &mut message.body {
                req.alternate = Some(path(&mut rng));
            }
            let mut mad = [0; MAD];
            message.write(&mut mad).unwrap();
            let read = bits(&mad, 24 + byte, bit, width);
            assert_eq!(read, value(&message.body), "{kind:?} {byte}.{bit}");
        }
        for &(kind, at, len) in PRIVATE {
            let message = any_message(kind, &data, &mut rng);
            let mut mad = [0; MAD];
            message.write(&mut mad).unwrap();
            assert_eq!(&mad[24 + at..24 + at + len], &data[..len], "{kind:?}");
            assert_eq!(message.body.private(), &data[..len]);
            assert_eq!(mad[..4], [1, 7, 2, 3]);
            assert_eq!(bits(&mad, 8, 0, 64), message.tid);
            assert_eq!(bits(&mad, 16, 0, 16), u64::from(kind.attr()));
        }
    }
}

/// Every field that is written is written by every message: no byte of the buffer remains.
#[test]
fn every_byte_is_written() {
    let data = [0; 512];
    for kind in Kind::ALL {
        let message = any_message(kind, &data, &mut Rng::new(1));
        let (mut zeros, mut ones) = ([0; MAD], [0xff; MAD]);
        message.write(&mut zeros).unwrap();
        message.write(&mut ones).unwrap();
        assert_eq!(zeros, ones, "{kind:?}");
    }
}

#[test]
fn transports() {
    let data = [0; 512];
    let mut rng = Rng::new(3);
    for (transport, basic, extended) in [
        (Transport::Rc, 0, 0),
        (Transport::Uc, 1, 0),
        (Transport::Xrc, 3, 1),
        (Transport::Other(2, 5), 2, 5),
        (Transport::Other(3, 0), 3, 0),
    ] {
        let mut message = any_message(Kind::Req, &data, &mut rng);
        let Body::Req(req) = &mut message.body else {
            unreachable!()
        };
        req.transport = transport;
        let mut mad = [0; MAD];
        message.write(&mut mad).unwrap();
        assert_eq!(bits(&mad, 24 + 43, 5, 2), basic);
        assert_eq!(bits(&mad, 24 + 51, 5, 3), extended);
    }
    // The extended type of RC and UC is ignored, as in the C module.
    let message = any_message(Kind::Req, &data, &mut rng);
    let mut mad = [0; MAD];
    message.write(&mut mad).unwrap();
    mad[24 + 43] &= !6;
    mad[24 + 51] |= 7;
    let Some(Message {
        body: Body::Req(req),
        ..
    }) = Message::parse(&mad)
    else {
        panic!()
    };
    assert_eq!(req.transport, Transport::Rc);
}

#[test]
fn fields_are_truncated() {
    let data = [0; 512];
    let mut message = any_message(Kind::Req, &data, &mut Rng::new(5));
    let Body::Req(req) = &mut message.body else {
        unreachable!()
    };
    req.alternate = None;
    let expected = *req;
    req.ece.vendor_id |= 0xff00_0000;
    req.remote_response_timeout |= 0xe0;
    req.local_response_timeout |= 0xe0;
    req.retry_count |= 0xf8;
    req.rnr_retry_count |= 0xf8;
    req.mtu |= 0xf0;
    req.max_cm_retries |= 0xf0;
    req.primary.flow_label |= 0xfff0_0000;
    req.primary.rate |= 0xc0;
    req.primary.sl |= 0xf0;
    req.primary.ack_timeout |= 0xe0;
    let mut mad = [0; MAD];
    message.write(&mut mad).unwrap();
    assert_eq!(
        Message::parse(&mad).map(|m| m.body),
        Some(Body::Req(expected))
    );
}

#[test]
fn lengths() {
    let data = [7; 512];
    let mut rng = Rng::new(9);
    for &(kind, at, len) in PRIVATE {
        let mut long = any_message(kind, &data, &mut rng);
        let mut short = long;
        for (message, len) in [(&mut long, len + 1), (&mut short, 3)] {
            match &mut message.body {
                Body::Req(m) => m.private = &data[..len],
                Body::Mra(m) => m.private = &data[..len],
                Body::Rej(m) => m.private = &data[..len],
                Body::Rep(m) => m.private = &data[..len],
                Body::Rtu(m) => m.private = &data[..len],
                Body::Dreq(m) => m.private = &data[..len],
                Body::Drep(m) => m.private = &data[..len],
                Body::SidrReq(m) => m.private = &data[..len],
                Body::SidrRep(m) => m.private = &data[..len],
                Body::Lap(m) => m.private = &data[..len],
                Body::Apr(m) => m.private = &data[..len],
            }
        }
        let mut mad = [0; MAD];
        assert_eq!(long.write(&mut mad), Err(TooLong), "{kind:?}");
        short.write(&mut mad).unwrap();
        assert_eq!(mad[24 + at..24 + at + 4], [7, 7, 7, 0]);
    }
    for kind in [Kind::Rej, Kind::Apr, Kind::SidrRep] {
        let mut message = any_message(kind, &data, &mut rng);
        match &mut message.body {
            Body::Rej(m) => m.ari = &data[..private::INFO + 1],
            Body::Apr(m) => m.info = &data[..private::INFO + 1],
            Body::SidrRep(m) => m.info = &data[..private::INFO + 1],
            _ => unreachable!(),
        }
        assert_eq!(message.write(&mut [0; MAD]), Err(TooLong));
    }
}

/// A peer may claim more additional information than its field has.
#[test]
fn information_ends_with_its_field() {
    let data = [1; 512];
    for (kind, at) in [(Kind::Rej, 9), (Kind::Apr, 8), (Kind::SidrRep, 5)] {
        let message = any_message(kind, &data, &mut Rng::new(2));
        let mut mad = [0; MAD];
        message.write(&mut mad).unwrap();
        mad[24 + at] = 0xff;
        let len = match Message::parse(&mad).unwrap().body {
            Body::Rej(m) => m.ari.len(),
            Body::Apr(m) => m.info.len(),
            Body::SidrRep(m) => m.info.len(),
            _ => unreachable!(),
        };
        assert_eq!(len, private::INFO);
    }
}

#[test]
fn what_is_no_message() {
    let data = [0; 512];
    let message = any_message(Kind::Rtu, &data, &mut Rng::new(4));
    let mut mad = [0; MAD];
    message.write(&mut mad).unwrap();
    assert!(Message::parse(&mad).is_some());
    for len in (0..MAD).chain([MAD + 1, 2048]) {
        let mut long = [0; 2048];
        long[..MAD].copy_from_slice(&mad);
        assert_eq!(Message::parse(&long[..len]), None, "{len}");
    }
    for (at, values) in [(1, [0, 6, 8]), (2, [0, 1, 3]), (3, [0, 2, 0x83])] {
        for value in values {
            let mut mad = mad;
            mad[at] = value;
            assert_eq!(Message::parse(&mad), None);
        }
    }
    for attr in (0..=u16::MAX).filter(|attr| !(0x10..=0x1a).contains(attr)) {
        let mut mad = mad;
        mad[16..18].copy_from_slice(&attr.to_be_bytes());
        assert_eq!(Message::parse(&mad), None);
    }
}

/// Any bytes are parsed without harm, and written back as far as they mean something.
#[test]
fn what_is_parsed_is_written() {
    for seed in 0..50_000 {
        let mut rng = Rng::new(seed);
        let mut mad = [0; MAD];
        rng.fill(&mut mad);
        mad[1..4].copy_from_slice(&[7, 2, 3]);
        mad[16] = 0;
        mad[17] = 0x10 + (seed % 11) as u8;
        let message = Message::parse(&mad).unwrap();
        let mut again = [0; MAD];
        message.write(&mut again).unwrap();
        let parsed = Message::parse(&again).unwrap();
        match (message.body, parsed.body) {
            // What is not valid is not written.
            (Body::Rej(a), Body::Rej(b)) => assert_eq!(
                a,
                Rej {
                    ari_guid: a.ari_guid,
                    ..b
                }
            ),
            (a, b) => assert_eq!(a, b, "seed {seed}"),
        }
        assert_eq!(message.tid, parsed.tid);
    }
}
