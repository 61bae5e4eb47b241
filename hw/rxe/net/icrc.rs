// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC (ICRC) of RoCEv2 packets, computed with the kernel's CRC-32.
//!
//! Source: IBTA annex A17.9.2; the framing is `wire::icrc`.

use rdma::crc32::crc32_le;
use rdma::wire::icrc;
use rdma::wire::icrc::Framing;
use rdma::wire::Bth;
use rdma::wire::ICRC_LEN;

/// Offset of the BTH byte that routers may change.
pub(super) const BTH_VARIANT: usize = 4;

/// Bytes at the front of an IPv4 packet that contain masked fields: IP, UDP, BTH.
const FRONT_V4: usize = Framing::Ipv4.masked_len();
/// The same for an IPv6 packet.
const FRONT_V6: usize = Framing::Ipv6.masked_len();

/// Writes the ICRC into the last four bytes of `packet`. The packet starts with its IP header and
/// is otherwise complete, with variant fields set to ones, so that one CRC call covers headers and
/// payload while they are in the cache. Returns `None` if the packet is too short.
#[inline]
pub(super) fn seal(framing: Framing, packet: &mut [u8]) -> Option<()> {
    *packet.last_chunk_mut()? = of_masked(framing, packet)?;
    Some(())
}

/// Like [`verify`], for a packet with no other readers: it is masked in place temporarily, which
/// saves a second CRC call.
#[inline]
pub(super) fn verify_in_place(framing: Framing, packet: &mut [u8]) -> bool {
    match compute(framing, packet) {
        Some(icrc) => packet.last_chunk() == Some(&icrc),
        None => false,
    }
}

/// Like [`verify_in_place`], but the masked fields of the IP and UDP headers are not restored. For
/// callers that do not need them any more.
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

/// Returns the ICRC of a packet whose variant fields are set to ones. Its last four bytes are not
/// covered.
#[inline(always)]
fn of_masked(framing: Framing, packet: &[u8]) -> Option<[u8; ICRC_LEN]> {
    let covered = packet.len().checked_sub(ICRC_LEN)?;
    Some(icrc::finish(crc32_le(
        framing.seed(),
        packet.get(..covered)?,
    )))
}

/// Returns the ICRC that a packet should end with.
#[inline]
fn compute(framing: Framing, packet: &mut [u8]) -> Option<[u8; ICRC_LEN]> {
    match framing {
        Framing::Ipv4 => compute_with::<FRONT_V4>(framing, packet),
        Framing::Ipv6 => compute_with::<FRONT_V6>(framing, packet),
        Framing::Grh | Framing::Lrh => None,
    }
}

/// Like [`compute`], with the length of the masked front as a constant: it is saved and restored
/// for each packet.
#[inline]
fn compute_with<const FRONT: usize>(framing: Framing, packet: &mut [u8]) -> Option<[u8; ICRC_LEN]> {
    let covered = packet.len().checked_sub(ICRC_LEN)?;
    let saved: [u8; FRONT] = *packet.get(..covered)?.first_chunk()?;
    framing.mask(packet)?;
    let icrc = of_masked(framing, packet)?;
    *packet.first_chunk_mut()? = saved;
    Some(icrc)
}

/// Returns whether the ICRC of `packet`, which starts with its IP header and ends with the ICRC, is
/// correct. The packet may be shared, so it is not modified.
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

/// Returns whether `packet`, whose ICRC is wrong, is a FLUSH with the ICRC of the C driver. That
/// driver computes a nonstandard ICRC for FLUSH and accepts no other. So it can flush to this
/// driver, but not the reverse.
#[cold]
pub(super) fn is_flush_of_c(framing: Framing, packet: &[u8]) -> bool {
    packet.split_last_chunk().is_some_and(|(body, field)| {
        icrc::icrc_of_c_flush(framing, body, crc32_le).as_ref() == Some(field)
    })
}

/// Returns the bytes between the start of the IP header and the BTH.
#[inline]
pub(super) const fn outer_len(v6: bool) -> usize {
    framing(v6).outer_len()
}

/// Returns the framing for an IP version.
#[inline]
pub(super) const fn framing(v6: bool) -> Framing {
    if v6 {
        Framing::Ipv6
    } else {
        Framing::Ipv4
    }
}

const _: () = assert!(FRONT_V4 == 28 + Bth::LEN && FRONT_V6 == 48 + Bth::LEN);
