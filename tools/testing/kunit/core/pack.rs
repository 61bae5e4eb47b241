// SPDX-License-Identifier: GPL-2.0

//! `core/proto/pack` and `core/proto/ud_header` against the loaded core.

use kernel::prelude::kunit_tests;

#[kunit_tests(core_pack)]
mod tests {
    use crate::peer;
    use crate::peer::Buffer;
    use crate::proto::pack::pack;
    use crate::proto::pack::unpack;
    use crate::proto::pack::Field;
    use crate::proto::ud_header::Header;
    use crate::proto::ud_header::Network;
    use crate::proto::ud_header::Shape;
    use kernel::prelude::*;

    fn below(rng: &mut peer::Rng, end: usize) -> usize {
        rng.any() as usize % end
    }

    fn field(rng: &mut peer::Rng) -> Field {
        let (bits, bit) = match below(rng, 4) {
            0 | 1 => {
                let bits = 1 + below(rng, 32);
                (bits, below(rng, 33 - bits))
            }
            2 => {
                let bits = 33 + below(rng, 32);
                (bits, below(rng, 65 - bits).min(31))
            }
            _ => (8 * (9 + below(rng, 8)), 8 * below(rng, 4)),
        };
        let struct_size = match bits {
            _ if below(rng, 6) == 0 => 0,
            0..=64 => 1 << below(rng, 4),
            more => more / 8,
        };
        Field {
            struct_offset: below(rng, 4),
            struct_size,
            word: below(rng, 4),
            bit,
            bits,
        }
    }

    fn buffer(rng: &mut peer::Rng) -> Buffer {
        let mut buffer = Buffer::default();
        for byte in buffer.bytes_mut() {
            *byte = rng.any() as u8;
        }
        buffer
    }

    #[test]
    fn random_fields() {
        let mut rng = peer::Rng::new(0x7061_636b);
        for _ in 0..20_000 {
            let field = field(&mut rng);
            let structure = buffer(&mut rng);
            let mut theirs = buffer(&mut rng);
            let mut ours = theirs.clone();
            let packed = pack([field].into_iter(), structure.bytes(), ours.bytes_mut());
            assert!(packed.is_ok());
            peer::pack(field, &structure, &mut theirs);
            assert!(ours == theirs);

            if (33..=64).contains(&field.bits) && field.word != 0 {
                // There the peer looks elsewhere; see the engine's header.
                continue;
            }
            let mut back = structure.clone();
            let mut their_back = structure.clone();
            let unpacked = unpack([field].into_iter(), ours.bytes(), back.bytes_mut());
            assert!(unpacked.is_ok());
            peer::unpack(field, &theirs, &mut their_back);
            assert!(back == their_back);
        }
    }

    #[test]
    fn headers_of_every_shape() -> Result {
        let mut rng = peer::Rng::new(0x7564);
        for case in 0..4_096_usize {
            let flag = |bit: usize| case >> bit & 1 != 0;
            let ip_version = [0, 4, 6, 5][case >> 6 & 3];
            let args = peer::UdArgs {
                payload: rng.any() % 4_097,
                lrh: flag(0),
                eth: flag(1),
                vlan: flag(2),
                grh: flag(3),
                udp: flag(4),
                immediate: flag(5),
                ip_version,
                bits: rng.any(),
            };
            let mut theirs = Buffer::default();
            let their_len = peer::ud_header(&args, &mut theirs);
            let network = Network::from_args(args.grh, ip_version, args.udp);
            let Ok(network) = network else {
                assert_eq!(their_len, Err(EINVAL));
                continue;
            };
            let shape = Shape {
                lrh: args.lrh,
                eth: args.eth,
                vlan: args.vlan,
                network,
                immediate: args.immediate,
            };
            let Ok(mut header) = Header::new(args.payload, shape) else {
                return Err(EINVAL);
            };
            header.grh.flow_label = args.bits;
            header.bth.dqpn = args.bits;
            header.bth.psn = args.bits;
            header.deth.qkey = args.bits;
            header.deth.sqpn = args.bits;
            header.lrh.dlid = args.bits as u16;
            header.ip4.saddr = args.bits.to_be_bytes();
            header.ip4.check = header.ip4.checksum();
            let mut ours = Buffer::default();
            let len = header.pack(ours.bytes_mut());
            assert_eq!(len.ok_or(EINVAL), their_len);
            assert!(ours == theirs);
        }
        Ok(())
    }
}
