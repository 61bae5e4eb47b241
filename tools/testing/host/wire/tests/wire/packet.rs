// SPDX-License-Identifier: GPL-2.0

//! Whole packets: exact bytes, refusals, and properties over all opcodes.

use proptest::collection::vec;
use proptest::prelude::*;
use rdma_wire::{
    pad_len, write_headers, Aeth, AethSyndrome, AtomicAckEth, AtomicEth, Bth, Deth, DropReason,
    Ext, Feth, Grh, Header, Ieth, ImmDt, Msn, NakCode, Opcode, Packet, PayloadRule, Psn, Reth,
    RnrTimer, Start, XrcEth, ICRC_LEN, MAX_HEADER_LEN,
};

const RETH: Reth = Reth {
    va: 0x0102_0304_0506_0708,
    rkey: 0x1112_1314,
    length: 0x2122_2324,
};
const RETH_BYTES: &str = "0102030405060708 11121314 21222324";
const ATOMIC: AtomicEth = AtomicEth {
    va: 0x0102_0304_0506_0708,
    rkey: 0x1112_1314,
    swap_or_add: 0x2122_2324_2526_2728,
    compare: 0x3132_3334_3536_3738,
};
const ATOMIC_BYTES: &str = "0102030405060708 11121314 2122232425262728 3132333435363738";
const IMM: ImmDt = ImmDt([0xa1, 0xa2, 0xa3, 0xa4]);
const IETH: Ieth = Ieth { rkey: 0xb1b2_b3b4 };
const XRC: XrcEth = XrcEth { srqn: 0xc1_c2c3 };
const DETH: Deth = Deth {
    qkey: 0x8001_0000,
    src_qpn: 0xd1_d2d3,
};
const AETH: Aeth = Aeth {
    syndrome: AethSyndrome::ACK,
    msn: Msn::new(0xe1_e2e3),
};

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A datagram with these headers, a payload of `len` counted bytes, and no true ICRC.
fn datagram(bth: &Bth, ext: &Ext, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; MAX_HEADER_LEN];
    let header_len = write_headers(&mut bytes, bth, ext).unwrap();
    bytes.truncate(header_len);
    bytes.extend((0..len).map(|i| i as u8));
    bytes.resize(bytes.len() + usize::from(bth.pad) + ICRC_LEN, 0);
    bytes
}

/// One packet of each layout, with the bytes of its extension headers.
fn samples() -> Vec<(Opcode, Ext, String)> {
    use Opcode as O;
    let reth_imm = format!("{RETH_BYTES} a1a2a3a4");
    vec![
        (O::RcSendFirst, Ext::None, String::new()),
        (O::RcSendLastImm, Ext::Imm(IMM), "a1a2a3a4".into()),
        (O::RcSendLastInv, Ext::Ieth(IETH), "b1b2b3b4".into()),
        (O::RcReadRequest, Ext::Reth(RETH), RETH_BYTES.into()),
        (O::UcWriteOnlyImm, Ext::RethImm(RETH, IMM), reth_imm.clone()),
        (
            O::RcFlush,
            Ext::FethReth(
                Feth {
                    placement: Feth::PERSISTENT,
                    selectivity: Feth::REGION,
                },
                RETH,
            ),
            format!("00000012 {RETH_BYTES}"),
        ),
        (O::RcFetchAdd, Ext::AtomicEth(ATOMIC), ATOMIC_BYTES.into()),
        (O::RcAck, Ext::Aeth(AETH), "1fe1e2e3".into()),
        (
            O::RcAtomicAck,
            Ext::AethAtomicAck(AETH, AtomicAckEth { original: 0x0f1f }),
            "1fe1e2e3 0000000000000f1f".into(),
        ),
        (O::UdSendOnly, Ext::Deth(DETH), "80010000 00d1d2d3".into()),
        (
            O::UdSendOnlyImm,
            Ext::DethImm(DETH, IMM),
            "80010000 00d1d2d3 a1a2a3a4".into(),
        ),
        (O::Cnp, Ext::Cnp, "00".repeat(16)),
        (O::XrcSendOnly, Ext::Xrc(XRC), "00c1c2c3".into()),
        (
            O::XrcSendOnlyImm,
            Ext::XrcImm(XRC, IMM),
            "00c1c2c3 a1a2a3a4".into(),
        ),
        (
            O::XrcSendOnlyInv,
            Ext::XrcIeth(XRC, IETH),
            "00c1c2c3 b1b2b3b4".into(),
        ),
        (
            O::XrcWriteFirst,
            Ext::XrcReth(XRC, RETH),
            format!("00c1c2c3 {RETH_BYTES}"),
        ),
        (
            O::XrcWriteOnlyImm,
            Ext::XrcRethImm(XRC, RETH, IMM),
            format!("00c1c2c3 {reth_imm}"),
        ),
        (
            O::XrcCompareSwap,
            Ext::XrcAtomicEth(XRC, ATOMIC),
            format!("00c1c2c3 {ATOMIC_BYTES}"),
        ),
    ]
}

#[test]
fn bytes_of_each_layout() {
    for (opcode, ext, ext_bytes) in samples() {
        let bth = Bth::new(opcode, 0x12_3456, Psn::new(0x65_4321));
        let len = match opcode.payload_rule() {
            PayloadRule::None => 0,
            PayloadRule::Fixed(n) => n.into(),
            PayloadRule::Mtu | PayloadRule::OneToMtu | PayloadRule::ZeroToMtu => 256,
        };
        let bytes = datagram(&bth, &ext, len);
        let bth_bytes = unhex(&format!("{:02x}00ffff 00123456 00654321", u8::from(opcode)));
        assert_eq!(bytes[..12], bth_bytes, "{opcode:?}");
        assert_eq!(
            bytes[12..opcode.header_len()],
            unhex(&ext_bytes),
            "{opcode:?}"
        );
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.bth, packet.ext), (bth, ext));
        assert_eq!(packet.payload.len(), len);
    }
}

#[test]
fn every_bth_field_has_its_place() {
    let plain = Bth::new(Opcode::RcSendOnly, 0, Psn::new(0));
    let set = |change: fn(&mut Bth)| {
        let mut bth = plain;
        change(&mut bth);
        let mut bytes = [0; 12];
        assert_eq!(write_headers(&mut bytes, &bth, &Ext::None), Some(12));
        bytes
    };
    assert_eq!(set(|b| b.solicited = true)[1], 0x80);
    assert_eq!(set(|b| b.migrated = true)[1], 0x40);
    assert_eq!(set(|b| b.pad = 3)[1], 0x30);
    assert_eq!(set(|b| b.pkey = 0x1234)[2..4], [0x12, 0x34]);
    assert_eq!(set(|b| b.fecn = true)[4], 0x80);
    assert_eq!(set(|b| b.becn = true)[4], 0x40);
    assert_eq!(set(|b| b.ack_req = true)[8], 0x80);
    // Too wide a value does not spill into the flags.
    assert_eq!(set(|b| b.dest_qpn = u32::MAX)[4..8], [0, 255, 255, 255]);
    assert_eq!(set(|b| b.pad = 0xff)[1], 0x30);
}

#[test]
fn syndromes() {
    for byte in 0..=255 {
        // Bit 7 is reserved and ignored.
        let expected = match byte & 0x7f {
            credit @ 0x00..=0x1f => Some(AethSyndrome::Ack { credit }),
            code @ 0x20..=0x3f => Some(AethSyndrome::Rnr(RnrTimer::new(code & 0x1f))),
            0x60 => Some(AethSyndrome::Nak(NakCode::PsnSequence)),
            0x61 => Some(AethSyndrome::Nak(NakCode::InvalidRequest)),
            0x62 => Some(AethSyndrome::Nak(NakCode::RemoteAccess)),
            0x63 => Some(AethSyndrome::Nak(NakCode::RemoteOperation)),
            _ => None,
        };
        let syndrome = AethSyndrome::from_byte(byte);
        assert_eq!(syndrome, expected, "{byte:#04x}");
        if let Some(syndrome) = syndrome {
            assert_eq!(syndrome.to_byte(), byte & 0x7f);
        }
    }
    let bth = Bth::new(Opcode::RcAck, 1, Psn::new(1));
    let mut ack = datagram(&bth, &Ext::Aeth(AETH), 0);
    ack[12] = 0x64;
    assert_eq!(Packet::parse(&ack), Err(DropReason::BadSyndrome(0x64)));
}

#[test]
fn refusals() {
    let mut bth = Bth::new(Opcode::RcSendOnly, 1, Psn::new(1));
    let good = datagram(&bth, &Ext::None, 8);
    assert!(Packet::parse(&good).is_ok());

    let mut bytes = good.clone();
    bytes[1] |= 0x05;
    assert_eq!(Packet::parse(&bytes), Err(DropReason::BadVersion(5)));
    let mut bytes = good.clone();
    bytes[0] = 0x15;
    assert_eq!(Packet::parse(&bytes), Err(DropReason::UnknownOpcode(0x15)));
    assert_eq!(
        Packet::parse(&good[..good.len() - 1]),
        Err(DropReason::BadPad)
    );
    // Pad without payload: longer than the packet.
    bth.pad = 2;
    let mut bytes = datagram(&bth, &Ext::None, 0);
    bytes.truncate(bytes.len() - 2);
    assert_eq!(Packet::parse(&bytes), Err(DropReason::BadPad));
    // Payload where none may be, and an atomic write of a wrong size.
    let ack = Bth::new(Opcode::RcAck, 1, Psn::new(1));
    let bytes = datagram(&ack, &Ext::Aeth(AETH), 4);
    assert_eq!(Packet::parse(&bytes), Err(DropReason::BadLength));
    let write = Bth::new(Opcode::RcAtomicWrite, 1, Psn::new(1));
    for (len, expected) in [(0, false), (4, false), (8, true), (12, false)] {
        let bytes = datagram(&write, &Ext::Reth(RETH), len);
        assert_eq!(Packet::parse(&bytes).is_ok(), expected, "{len}");
    }
}

#[test]
fn headers_that_do_not_fit_are_not_written() {
    for (opcode, ext, _) in samples() {
        let bth = Bth::new(opcode, 1, Psn::new(1));
        let full = opcode.header_len();
        for len in 0..=full {
            let mut buf = vec![0; len];
            let written = write_headers(&mut buf, &bth, &ext);
            assert_eq!(written, (len == full).then_some(full));
        }
        // Only the headers of the opcode are written.
        for (other, other_ext, _) in samples() {
            let mut buf = [0; MAX_HEADER_LEN];
            let written = write_headers(&mut buf, &bth, &other_ext);
            assert_eq!(written.is_some(), opcode.layout() == other.layout());
        }
    }
}

#[test]
fn pad_fills_to_four() {
    for len in 0..4097 {
        assert!(pad_len(len) < 4);
        assert_eq!((len + usize::from(pad_len(len))) % 4, 0);
    }
}

#[test]
fn grh_bytes() {
    let grh = Grh {
        traffic_class: 0xab,
        flow_label: 0x1_2345,
        payload_len: 0x4142,
        next_header: 0x1b,
        hop_limit: 64,
        sgid: [1; 16],
        dgid: [2; 16],
    };
    let mut bytes = [0; 40];
    assert_eq!(grh.write(&mut bytes), Some(40));
    assert_eq!(bytes[..8], unhex("6ab12345 4142 1b 40"));
    assert_eq!(bytes[8..24], [1; 16]);
    assert_eq!(bytes[24..], [2; 16]);
    assert_eq!(Grh::parse(&bytes), Some(grh));
    assert_eq!(Grh::parse(&bytes[..39]), None);
    assert_eq!(grh.write(&mut [0; 39]), None);
    bytes[0] = 0x45;
    assert_eq!(Grh::parse(&bytes), None);
}

prop_compose! {
    /// A datagram of any opcode whose lengths agree and whose other bits are random.
    fn any_datagram()(
        index in 0..Opcode::ALL.len(),
        mut bytes in vec(any::<u8>(), MAX_HEADER_LEN),
        len in 0usize..300,
        fill: u8,
    ) -> Vec<u8> {
        let opcode = Opcode::ALL[index];
        let len = match opcode.payload_rule() {
            PayloadRule::None => 0,
            PayloadRule::Fixed(n) => n.into(),
            PayloadRule::Mtu | PayloadRule::OneToMtu | PayloadRule::ZeroToMtu => len,
        };
        bytes.truncate(opcode.header_len());
        bytes[0] = opcode.into();
        bytes[1] = bytes[1] & 0xc0 | pad_len(len) << 4;
        if let Some(syndrome) = bytes.get_mut(12) {
            *syndrome &= 0x3f;
        }
        bytes.resize(bytes.len() + len, fill);
        bytes.resize(bytes.len() + usize::from(pad_len(len)) + ICRC_LEN, 0);
        bytes
    }
}

/// A congestion notification has 16 reserved bytes, whatever is in them.
#[test]
fn a_notification_has_its_reserved_bytes() {
    let mut bytes = [0xff; 12 + 16 + ICRC_LEN];
    bytes[..12].copy_from_slice(&[0x81, 0, 0xff, 0xff, 0, 0, 0, 7, 0, 0, 0, 0]);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!((packet.ext, packet.payload), (Ext::Cnp, &[][..]));
    for len in 12..bytes.len() {
        assert_eq!(
            Packet::parse(&bytes[..len]),
            Err(DropReason::TooShort),
            "{len}"
        );
        let header = Header::parse(&bytes[..len], bytes.len());
        assert_eq!(header.is_ok(), len >= 12 + 16, "{len}");
    }
    // Zeros are written.
    let mut again = [0xff; MAX_HEADER_LEN];
    assert_eq!(
        write_headers(&mut again, &packet.bth, &packet.ext),
        Some(28)
    );
    assert_eq!(again[12..28], [0; 16]);
    assert_eq!(again.get(28), Some(&0xff));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// What was parsed is written to the same meaning, and then byte for byte.
    #[test]
    fn round_trip(bytes in any_datagram()) {
        let packet = Packet::parse(&bytes).unwrap();
        let mut again = bytes.clone();
        let len = write_headers(&mut again, &packet.bth, &packet.ext).unwrap();
        prop_assert_eq!(len, packet.bth.opcode.header_len());
        prop_assert_eq!(Packet::parse(&again).unwrap(), packet);
        let mut third = vec![0; len];
        write_headers(&mut third, &packet.bth, &packet.ext).unwrap();
        prop_assert_eq!(&third, &again[..len]);
    }

    /// What tells whose packet it is says the same as all of it.
    #[test]
    fn start_says_the_same(bytes in any_datagram()) {
        let packet = Packet::parse(&bytes).unwrap();
        let start = Start::parse(&bytes, bytes.len()).unwrap();
        let Bth { opcode, solicited, pkey, dest_qpn, ack_req, psn, .. } = packet.bth;
        prop_assert_eq!(
            (start.opcode(), start.solicited(), start.pkey(), start.dest_qpn()),
            (opcode, solicited, pkey, dest_qpn)
        );
        prop_assert_eq!((start.ack_req(), start.psn()), (ack_req, psn));
        prop_assert_eq!(start.payload_len() as usize, packet.payload.len());
        let payload = &bytes[start.payload_offset()..][..packet.payload.len()];
        prop_assert_eq!(payload, packet.payload);
        prop_assert_eq!(start.ext(&bytes), Ok(packet.ext));
    }

    /// Cut anywhere, a datagram is refused or is a shorter one that is consistent.
    #[test]
    fn truncated(bytes in any_datagram()) {
        let whole = Packet::parse(&bytes).unwrap();
        for len in 0..bytes.len() {
            match Packet::parse(&bytes[..len]) {
                Ok(packet) => {
                    prop_assert_eq!((packet.bth, packet.ext), (whole.bth, whole.ext));
                    prop_assert!(whole.payload.starts_with(packet.payload));
                    prop_assert_eq!(
                        packet.bth.opcode.header_len()
                            + packet.payload.len()
                            + usize::from(packet.bth.pad)
                            + ICRC_LEN,
                        len
                    );
                }
                Err(reason) => prop_assert!(matches!(
                    reason,
                    DropReason::TooShort | DropReason::BadPad | DropReason::BadLength
                )),
            }
        }
    }

    /// The beginning of a datagram and its length tell the same as the whole.
    #[test]
    fn linear_part_suffices(bytes in any_datagram()) {
        let packet = Packet::parse(&bytes).unwrap();
        let header_len = packet.bth.opcode.header_len();
        for linear in 0..=bytes.len() {
            let header = Header::parse(&bytes[..linear], bytes.len());
            if linear >= header_len {
                prop_assert_eq!(header, Ok(packet.header()));
            } else {
                prop_assert_eq!(header, Err(DropReason::TooShort));
            }
        }
        let start = packet.header().payload_offset();
        prop_assert_eq!(&bytes[start..start + packet.payload.len()], packet.payload);
    }

    /// Any bytes, any claimed length: an answer, never a panic.
    #[test]
    fn random_bytes(mut bytes in vec(any::<u8>(), 0..120), version_0: bool, total: usize) {
        if let (true, Some(flags)) = (version_0, bytes.get_mut(1)) {
            *flags &= 0xf0;
        }
        let _: Result<Header, DropReason> = Header::parse(&bytes, total);
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert!(packet.payload.len() <= bytes.len());
            prop_assert_eq!(packet.ext.layout(), packet.bth.opcode.layout());
        }
        let _: Option<Grh> = Grh::parse(&bytes);
    }
}
