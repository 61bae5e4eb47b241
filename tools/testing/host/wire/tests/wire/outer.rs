// SPDX-License-Identifier: GPL-2.0

//! The IP and UDP headers that are written: exact bytes, and what the ICRC makes of them.

use proptest::prelude::*;
use rdma_wire::icrc::Framing;
use rdma_wire::outer::{write_ipv4, write_ipv6, Variable};

const VARIABLE: Variable = Variable {
    class: 0x4a,
    flow_label: 0x5_6789,
    hop_limit: 0x40,
};

#[test]
fn pinned() {
    let ends = ([10, 0, 1, 1], [10, 0, 1, 2]);
    let mut v4 = [0xee; 28];
    assert_eq!(write_ipv4(&mut v4, ends, 0xc012, 0x0123, 7), Some(()));
    VARIABLE.put_ipv4(&mut v4);
    #[rustfmt::skip]
    assert_eq!(v4, [
        0x45, 0x4a, 0x01, 0x23, 0, 7, 0x40, 0, 0x40, 17, 0, 0, 10, 0, 1, 1, 10, 0, 1, 2,
        0xc0, 0x12, 0x12, 0xb7, 0x01, 0x0f, 0, 0,
    ]);
    let mut v6 = [0xee; 48];
    let ends = ([0xaa; 16], [0xbb; 16]);
    assert_eq!(write_ipv6(&mut v6, ends, 0xc012, 0x0123), Some(()));
    VARIABLE.put_ipv6(&mut v6);
    assert_eq!(v6[..8], [0x64, 0xa5, 0x67, 0x89, 0x00, 0xfb, 17, 0x40]);
    assert_eq!(
        (&v6[8..24], &v6[24..40]),
        (&[0xaa; 16][..], &[0xbb; 16][..])
    );
    assert_eq!(v6[40..], [0xc0, 0x12, 0x12, 0xb7, 0x00, 0xfb, 0, 0]);
}

#[test]
fn lengths_that_cannot_be() {
    let v4 = |total| write_ipv4(&mut [0; 28], ([0; 4], [0; 4]), 1, total, 0);
    assert_eq!((v4(19), v4(20)), (None, Some(())));
    let v6 = |total| write_ipv6(&mut [0; 48], ([0; 16], [0; 16]), 1, total);
    assert_eq!((v6(39), v6(40)), (None, Some(())));
}

proptest! {
    /// What is written is what the mask makes of it, before the true values are in and after.
    #[test]
    fn written_as_masked(
        src in any::<[u8; 16]>(),
        dst in any::<[u8; 16]>(),
        port in any::<u16>(),
        total in 60u16..,
        ident in any::<u16>(),
        class in any::<u8>(),
        flow_label in 0u32..1 << 20,
        hop_limit in any::<u8>(),
    ) {
        let variable = Variable { class, flow_label, hop_limit };
        let first = |of: [u8; 16]| *of.first_chunk::<4>().unwrap();
        let mut v4 = [0xff; 60];
        let outer: &mut [u8; 28] = v4.first_chunk_mut().unwrap();
        write_ipv4(outer, (first(src), first(dst)), port, total, ident).unwrap();
        let mut v6 = [0xff; 60];
        let outer: &mut [u8; 48] = v6.first_chunk_mut().unwrap();
        write_ipv6(outer, (src, dst), port, total).unwrap();
        for (framing, written) in [(Framing::Ipv4, v4), (Framing::Ipv6, v6)] {
            let mut masked = written;
            framing.mask(&mut masked).unwrap();
            prop_assert_eq!(masked, written);
            match framing {
                Framing::Ipv4 => variable.put_ipv4(masked.first_chunk_mut().unwrap()),
                _ => variable.put_ipv6(masked.first_chunk_mut().unwrap()),
            }
            framing.mask(&mut masked).unwrap();
            prop_assert_eq!(masked, written);
        }
    }
}
