// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC of RoCEv2 packets, with the kernel's CRC-32.
//!
//! Source: IBTA annex A17.9.2; the framing is `wire::icrc`.

use rdma::crc32::crc32_le;
use rdma::wire::icrc;
use rdma::wire::icrc::Framing;
use rdma::wire::Bth;
use rdma::wire::ICRC_LEN;

/// The byte of the BTH that routers may change.
pub(super) const BTH_VARIANT: usize = 4;

/// Bytes of an IPv4 packet's front that has masked fields: IP, UDP, BTH.
const FRONT_V4: usize = Framing::Ipv4.masked_len();
/// The same of an IPv6 packet.
const FRONT_V6: usize = Framing::Ipv6.masked_len();

/// Fills in the ICRC, the last four bytes of `packet`, which begins with its IP
/// header and is otherwise complete, with ones in all that routers may change. So one CRC
/// call covers headers and payload while they are in the cache. `None` if it is too short.
#[inline]
pub(super) fn seal(framing: Framing, packet: &mut [u8]) -> Option<()> {
    *packet.last_chunk_mut()? = of_masked(framing, packet)?;
    Some(())
}

/// As [`verify`], of a packet that nobody else reads: it is masked in place meanwhile,
/// for one CRC call instead of two.
#[inline]
pub(super) fn verify_in_place(framing: Framing, packet: &mut [u8]) -> bool {
    match compute(framing, packet) {
        Some(icrc) => packet.last_chunk() == Some(&icrc),
        None => false,
    }
}

/// As [`verify_in_place`], but what is masked of the IP and UDP headers stays so, for who does
/// not want it any more.
#[inline]
pub(super) fn verify_masking(framing: Framing, packet: &mut [u8]) -> bool {
    masking(framing, packet).is_some_and(|icrc| packet.last_chunk() == Some(&icrc))
}

#[inline]
fn masking(framing: Framing, packet: &mut [u8]) -> Option<[u8; ICRC_LEN]> {
    let at = framing.outer_len().checked_add(BTH_VARIANT)?;
    let saved = *packet.get(at)?;
    framing.mask(packet)?;
    let icrc = of_masked(framing, packet)?;
    *packet.get_mut(at)? = saved;
    Some(icrc)
}

/// The ICRC of a packet that has ones in all that routers may change; its last four bytes do
/// not count.
#[inline(always)]
fn of_masked(framing: Framing, packet: &[u8]) -> Option<[u8; ICRC_LEN]> {
    let covered = packet.len().checked_sub(ICRC_LEN)?;
    Some(icrc::finish(crc32_le(
        framing.seed(),
        packet.get(..covered)?,
    )))
}

/// The ICRC that a packet should end with.
#[inline]
fn compute(framing: Framing, packet: &mut [u8]) -> Option<[u8; ICRC_LEN]> {
    match framing {
        Framing::Ipv4 => compute_with::<FRONT_V4>(framing, packet),
        Framing::Ipv6 => compute_with::<FRONT_V6>(framing, packet),
        Framing::Grh | Framing::Lrh => None,
    }
}

/// As [`compute`], with the length of the masked front as a constant: it is put aside and
/// back with each packet.
#[inline]
fn compute_with<const FRONT: usize>(framing: Framing, packet: &mut [u8]) -> Option<[u8; ICRC_LEN]> {
    let covered = packet.len().checked_sub(ICRC_LEN)?;
    let saved: [u8; FRONT] = *packet.get(..covered)?.first_chunk()?;
    framing.mask(packet)?;
    let icrc = of_masked(framing, packet)?;
    *packet.first_chunk_mut()? = saved;
    Some(icrc)
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

/// Whether `packet`, whose ICRC is not the right one, is a FLUSH with that of the C driver.
/// It makes no other, and takes no other; so it can flush to us, if not we to it.
#[cold]
pub(super) fn is_flush_of_c(framing: Framing, packet: &[u8]) -> bool {
    packet.split_last_chunk().is_some_and(|(body, field)| {
        icrc::icrc_of_c_flush(framing, body, crc32_le).as_ref() == Some(field)
    })
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

const _: () = assert!(FRONT_V4 == 28 + Bth::LEN && FRONT_V6 == 48 + Bth::LEN);
