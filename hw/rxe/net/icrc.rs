// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC of RoCEv2 packets, with the kernel's CRC-32.
//!
//! Source: IBTA annex A17.9.2; the framing is `wire::icrc`.

use rdma::crc32::crc32_le;
use rdma::wire::icrc;
use rdma::wire::icrc::Framing;
use rdma::wire::Bth;
use rdma::wire::ICRC_LEN;

/// The longest front of a packet that has masked fields: IPv6, UDP, BTH.
const FRONT_LEN: usize = icrc::MAX_MASKED_LEN;

/// Fills in the ICRC, the last four bytes of `packet`, which begins with its IP
/// header and is otherwise complete. `None` if it does not begin with such a header.
///
/// The header is masked in place for the time of the computation, so that one CRC
/// call covers headers and payload while they are in the cache.
#[inline]
pub(super) fn seal(framing: Framing, packet: &mut [u8]) -> Option<()> {
    let covered = packet.len().checked_sub(ICRC_LEN)?;
    let front_len = framing.masked_len();
    let mut saved = [0u8; FRONT_LEN];
    let saved = saved.get_mut(..front_len)?;
    saved.copy_from_slice(packet.get(..front_len)?);

    framing.mask(packet)?;
    let (body, field) = packet.split_at_mut_checked(covered)?;
    field.copy_from_slice(&icrc::finish(crc32_le(framing.seed(), body)));
    body.get_mut(..front_len)?.copy_from_slice(saved);
    Some(())
}

/// As [`verify`], of a packet that nobody else reads: it is masked in place meanwhile,
/// for one CRC call instead of two.
#[inline]
pub(super) fn verify_in_place(framing: Framing, packet: &mut [u8]) -> bool {
    let check = |packet: &mut [u8]| {
        let covered = packet.len().checked_sub(ICRC_LEN)?;
        let front_len = framing.masked_len();
        let mut saved = [0u8; FRONT_LEN];
        let saved = saved.get_mut(..front_len)?;
        saved.copy_from_slice(packet.get(..front_len)?);
        framing.mask(packet)?;
        let (body, field) = packet.split_at_mut_checked(covered)?;
        let right = icrc::finish(crc32_le(framing.seed(), body)) == *field;
        body.get_mut(..front_len)?.copy_from_slice(saved);
        Some(right)
    };
    check(packet).unwrap_or(false)
}

/// Whether the ICRC of `packet`, which begins with its IP header and ends with the
/// ICRC, is right. The packet may be shared, so it is not touched.
#[inline]
pub(super) fn verify(framing: Framing, packet: &[u8]) -> bool {
    let Some(covered) = packet.len().checked_sub(ICRC_LEN) else {
        return false;
    };
    match packet.split_at_checked(covered) {
        Some((body, field)) => {
            icrc::icrc(framing, body, crc32_le).is_some_and(|icrc| icrc == *field)
        }
        None => false,
    }
}

/// Bytes between the start of the IP header and the BTH.
#[inline]
pub(super) const fn outer_len(v6: bool) -> usize {
    framing(v6).outer_len()
}

/// The framing of an IP version.
#[inline]
pub(super) const fn framing(v6: bool) -> Framing {
    if v6 {
        Framing::Ipv6
    } else {
        Framing::Ipv4
    }
}

const _: () = assert!(Framing::Ipv6.masked_len() == FRONT_LEN && Bth::LEN == 12);
