// SPDX-License-Identifier: GPL-2.0

//! Headers of datagrams that software builds: those of QP 1 on devices that leave this to their
//! drivers.
//!
//! A packet starts with an LRH, or with an Ethernet header with or without a VLAN tag; then comes
//! an optional network header, optionally UDP, and always BTH and DETH. IBTA volume 1, 7.7 (LRH),
//! 8.3 (GRH), 9.2 (BTH), 9.3.1 (DETH); annexes A16 and A17 (RoCE); RFC 791, RFC 768, IEEE 802.1Q.
//! [`Header::new`] fills in what follows from the shape, the driver fills in the addresses, and
//! [`Header::pack`] writes the bytes (`ib_ud_header_init` and `ib_ud_header_pack`). The invariant
//! CRC is not included.

use super::errno::Errno;
use super::gid::Gid;

const LRH: u32 = 8;
const GRH: u32 = 40;
const IPV4: u32 = 20;
const UDP: u32 = 8;
const BTH_AND_DETH: u32 = 20;
const ICRC: u32 = 4;

/// Maximum length: LRH, Ethernet, VLAN, IPv6, UDP, BTH, DETH, immediate.
pub const MAX: usize = 8 + 14 + 4 + 40 + 8 + 12 + 8 + 4;

/// Type of the network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// No network header.
    None,
    /// GRH of InfiniBand or RoCE version 1.
    Grh,
    /// IPv4; with UDP, RoCE version 2.
    Ipv4 {
        /// Whether UDP follows.
        udp: bool,
    },
    /// IPv6; with UDP, RoCE version 2.
    Ipv6 {
        /// Whether UDP follows.
        udp: bool,
    },
}

/// Which headers a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Local route header.
    pub lrh: bool,
    /// Ethernet header.
    pub eth: bool,
    /// A VLAN tag.
    pub vlan: bool,
    /// The network header.
    pub network: Network,
    /// Immediate data.
    pub immediate: bool,
}

/// UDP without IP, or a payload that exceeds the length fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible;

impl Impossible {
    /// The errno for it.
    pub const fn errno(self) -> Errno {
        Errno::Einval
    }
}

impl Network {
    /// Converts the arguments of the exported function: an IP version, which takes precedence over
    /// a GRH, and 0 or any other number for none.
    pub fn from_args(grh: bool, ip_version: u32, udp: bool) -> Result<Self, Impossible> {
        match (ip_version, udp) {
            (4, udp) => Ok(Self::Ipv4 { udp }),
            (6, udp) => Ok(Self::Ipv6 { udp }),
            (_, true) => Err(Impossible),
            (0, false) if grh => Ok(Self::Grh),
            (_, false) => Ok(Self::None),
        }
    }

    const fn has_udp(self) -> bool {
        matches!(self, Self::Ipv4 { udp: true } | Self::Ipv6 { udp: true })
    }
}

/// Local route header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lrh {
    /// Virtual lane, 4 bits.
    pub virtual_lane: u8,
    /// Link version, 4 bits.
    pub link_version: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// Type of the next header, 2 bits.
    pub next_header: u8,
    /// Destination LID.
    pub dlid: u16,
    /// Length from the LRH to before the invariant CRC, in words of 4 bytes, 11 bits.
    pub packet_length: u16,
    /// Source LID.
    pub slid: u16,
}

/// Ethernet header, and the VLAN tag if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eth {
    /// Destination MAC address.
    pub dmac: [u8; 6],
    /// Source MAC address.
    pub smac: [u8; 6],
    /// Ethertype, of the VLAN tag if there is one.
    pub ether_type: u16,
    /// Priority and VLAN id.
    pub vlan_tag: u16,
    /// Ethertype after the VLAN tag.
    pub vlan_type: u16,
}

/// Global route header, or IPv6 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grh {
    /// IP version: 6.
    pub ip_version: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after this header, including the invariant CRC.
    pub payload_length: u16,
    /// Type of the next header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID.
    pub sgid: Gid,
    /// Destination GID.
    pub dgid: Gid,
}

/// IPv4 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4 {
    /// Type of service.
    pub tos: u8,
    /// Length from this header on, including the invariant CRC, in bytes.
    pub total_length: u16,
    /// Identification.
    pub id: u16,
    /// Flags and fragment offset.
    pub frag_off: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the next header.
    pub protocol: u8,
    /// Checksum, see [`Ipv4::checksum`].
    pub check: u16,
    /// Source address.
    pub saddr: [u8; 4],
    /// Destination address.
    pub daddr: [u8; 4],
}

impl Ipv4 {
    /// Computes the header checksum (RFC 791, 3.1; RFC 1071), with `check` taken as zero.
    pub fn checksum(&self) -> u16 {
        let [s0, s1, s2, s3] = self.saddr;
        let [d0, d1, d2, d3] = self.daddr;
        let words = [
            u16::from_be_bytes([0x45, self.tos]),
            self.total_length,
            self.id,
            self.frag_off,
            u16::from_be_bytes([self.ttl, self.protocol]),
            u16::from_be_bytes([s0, s1]),
            u16::from_be_bytes([s2, s3]),
            u16::from_be_bytes([d0, d1]),
            u16::from_be_bytes([d2, d3]),
        ];
        let sum: u32 = words.into_iter().map(u32::from).sum();
        // OVERFLOW, CAST: the sum of nine words has at most 20 bits, and folding twice leaves 16.
        let once = (sum & 0xffff) + (sum >> 16);
        let twice = (once & 0xffff) + (once >> 16);
        !(twice as u16)
    }
}

/// UDP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Length from this header on, including the invariant CRC, in bytes.
    pub length: u16,
    /// Checksum; 0 for none.
    pub csum: u16,
}

/// Base transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bth {
    /// Opcode.
    pub opcode: u8,
    /// Solicited event.
    pub solicited: bool,
    /// Migration state.
    pub mig_req: bool,
    /// Pad bytes between payload and invariant CRC, 2 bits.
    pub pad_count: u8,
    /// Transport version, 4 bits.
    pub version: u8,
    /// Partition key.
    pub pkey: u16,
    /// Destination QP number, 24 bits.
    pub dqpn: u32,
    /// Acknowledge request.
    pub ack_req: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Q_Key.
    pub qkey: u32,
    /// Source QP number, 24 bits.
    pub sqpn: u32,
}

/// All headers of a datagram. Those that are not in the shape are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which headers are written.
    pub shape: Shape,
    /// Local route.
    pub lrh: Lrh,
    /// Ethernet and VLAN.
    pub eth: Eth,
    /// Global route, or IPv6.
    pub grh: Grh,
    /// IPv4.
    pub ip4: Ipv4,
    /// UDP.
    pub udp: Udp,
    /// Base transport.
    pub bth: Bth,
    /// Datagram.
    pub deth: Deth,
    /// Immediate data, as on the wire.
    pub immediate: [u8; 4],
}

impl Header {
    /// Headers for `payload` bytes of payload.
    pub fn new(payload: u32, shape: Shape) -> Result<Self, Impossible> {
        let short = |len: u32| u16::try_from(len).map_err(|_| Impossible);
        let udp = if shape.network.has_udp() { UDP } else { 0 };
        let transport = (BTH_AND_DETH + ICRC)
            .checked_add(payload)
            .filter(|len| *len < 1 << 16)
            .ok_or(Impossible)?;
        // OVERFLOW: here and below: less than 64 KiB plus headers.
        let padded = transport.next_multiple_of(4);

        let mut lrh = Lrh::default();
        if shape.lrh {
            // Local packets have a GRH or nothing between LRH and BTH.
            let grh = shape.network == Network::Grh;
            lrh.next_header = if grh { 3 } else { 2 };
            // OVERFLOW: `padded` is less than 64 KiB plus headers.
            let len = padded + LRH + if grh { GRH } else { 0 };
            lrh.packet_length = short(len / 4)?;
        }
        let mut eth = Eth::default();
        if shape.vlan {
            eth.ether_type = 0x8100;
        }
        let mut grh = Grh::default();
        if matches!(shape.network, Network::Grh | Network::Ipv6 { .. }) {
            grh.ip_version = 6;
            // OVERFLOW: `padded` is less than 64 KiB plus headers.
            grh.payload_length = short(padded + udp)?;
            grh.next_header = if udp != 0 { 17 } else { 0x1b };
        }
        let mut ip4 = Ipv4::default();
        if matches!(shape.network, Network::Ipv4 { .. }) {
            // OVERFLOW: `transport` is less than 64 KiB.
            ip4.total_length = short(transport + udp + IPV4)?;
            ip4.protocol = 17;
        }
        let mut length = 0;
        if udp != 0 {
            // OVERFLOW: `transport` is less than 64 KiB.
            length = short(transport + UDP)?;
        }
        Ok(Self {
            shape,
            lrh,
            eth,
            grh,
            ip4,
            udp: Udp {
                length,
                ..Udp::default()
            },
            bth: Bth {
                // UD SEND ONLY, with or without immediate data.
                opcode: if shape.immediate { 0x65 } else { 0x64 },
                pad_count: (payload.wrapping_neg() & 3) as u8,
                ..Bth::default()
            },
            deth: Deth::default(),
            immediate: [0; 4],
        })
    }

    /// Writes the headers to the start of `buf`. Returns their length in bytes, or `None` if they
    /// do not fit.
    pub fn pack(&self, buf: &mut [u8]) -> Option<usize> {
        let mut out = Bits {
            buf,
            len: 0,
            partial: 0,
            bits: 0,
        };
        self.write(&mut out)?;
        Some(out.len)
    }

    fn write(&self, out: &mut Bits<'_>) -> Option<()> {
        let Header {
            shape,
            lrh,
            eth,
            grh,
            ip4,
            udp,
            bth,
            deth,
            immediate,
        } = self;
        if shape.lrh {
            out.put(4, lrh.virtual_lane)?;
            out.put(4, lrh.link_version)?;
            out.put(4, lrh.service_level)?;
            out.put(2, 0_u8)?;
            out.put(2, lrh.next_header)?;
            out.put(16, lrh.dlid)?;
            out.put(5, 0_u8)?;
            out.put(11, lrh.packet_length)?;
            out.put(16, lrh.slid)?;
        }
        if shape.eth {
            out.bytes(&eth.dmac)?;
            out.bytes(&eth.smac)?;
            out.put(16, eth.ether_type)?;
        }
        if shape.vlan {
            out.put(16, eth.vlan_tag)?;
            out.put(16, eth.vlan_type)?;
        }
        match shape.network {
            Network::None => {}
            Network::Grh | Network::Ipv6 { .. } => {
                out.put(4, grh.ip_version)?;
                out.put(8, grh.traffic_class)?;
                out.put(20, grh.flow_label)?;
                out.put(16, grh.payload_length)?;
                out.put(8, grh.next_header)?;
                out.put(8, grh.hop_limit)?;
                out.bytes(&grh.sgid.0)?;
                out.bytes(&grh.dgid.0)?;
            }
            Network::Ipv4 { .. } => {
                out.put(8, 0x45_u8)?;
                out.put(8, ip4.tos)?;
                out.put(16, ip4.total_length)?;
                out.put(16, ip4.id)?;
                out.put(16, ip4.frag_off)?;
                out.put(8, ip4.ttl)?;
                out.put(8, ip4.protocol)?;
                out.put(16, ip4.check)?;
                out.bytes(&ip4.saddr)?;
                out.bytes(&ip4.daddr)?;
            }
        }
        if shape.network.has_udp() {
            out.put(16, udp.sport)?;
            out.put(16, udp.dport)?;
            out.put(16, udp.length)?;
            out.put(16, udp.csum)?;
        }
        out.put(8, bth.opcode)?;
        out.put(1, bth.solicited)?;
        out.put(1, bth.mig_req)?;
        out.put(2, bth.pad_count)?;
        out.put(4, bth.version)?;
        out.put(16, bth.pkey)?;
        out.put(8, 0_u8)?;
        out.put(24, bth.dqpn)?;
        out.put(1, bth.ack_req)?;
        out.put(7, 0_u8)?;
        out.put(24, bth.psn)?;
        out.put(32, deth.qkey)?;
        out.put(8, 0_u8)?;
        out.put(24, deth.sqpn)?;
        if shape.immediate {
            out.bytes(immediate)?;
        }
        Some(())
    }
}

/// Writes bits in sequence, most significant first.
struct Bits<'b> {
    buf: &'b mut [u8],
    len: usize,
    /// Bits that do not fill a byte yet, in the low bits.
    partial: u64,
    /// Number of valid bits in `partial`; below 8.
    bits: u32,
}

impl Bits<'_> {
    /// Appends the low `bits` bits of a value, 1 to 32.
    fn put(&mut self, bits: u32, value: impl Into<u32>) -> Option<()> {
        self.append(bits, value.into())
    }

    /// Implements [`Self::put`].
    // Not inline: it has a caller for each field of each header.
    #[inline(never)]
    fn append(&mut self, bits: u32, value: u32) -> Option<()> {
        let mask = u64::MAX.checked_shr(64_u32.checked_sub(bits)?)?;
        self.partial = self.partial.checked_shl(bits)? | (u64::from(value) & mask);
        let mut left = self.bits.checked_add(bits)?;
        while let Some(rest) = left.checked_sub(8) {
            left = rest;
            // CAST: The bits above are already written.
            *self.buf.get_mut(self.len)? = self.partial.checked_shr(left)? as u8;
            self.len = self.len.checked_add(1)?;
        }
        self.bits = left;
        Some(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        bytes.iter().try_for_each(|byte| self.put(8, *byte))
    }
}
