// SPDX-License-Identifier: GPL-2.0

//! rdma_ulp_check: checks of the API for kernel consumers (`rust/ulp.rs`, `rust/cm.rs`) that take a
//! connection.
//!
//! Loading it connects the module to itself, at the address that it is told, and prints a line `ok -
//! CHECK` or `not ok - CHECK` for each check to the kernel log; it fails if one of them did.
//!
//! - `main.rs`: the module and the checks (this file);
//! - `peer.rs`: the ends of the connections.

mod peer;

use crate::peer::Bench;
use crate::peer::Ended;
use crate::peer::Outcome;
use crate::peer::Peer;
use crate::peer::ENTANGLE;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::net::SocketAddr;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::client::Registered;
use rdma::features::param;
use rdma::ulp::Access;
use rdma::ulp::Buffer;
use rdma::ulp::Done;
use rdma::ulp::Qp;
use rdma::ulp::Region;

rdma::resident_module! { struct Main(UlpCheck); }

module! {
    type: Main,
    name: "rdma_ulp_check",
    authors: ["The rust-rdma authors"],
    description: "Checks of the API for consumers of RDMA in the kernel",
    license: "GPL",
    params: {
        address: u32 {
            default: 0,
            description: "IPv4 address, as a number, of this machine's RDMA device",
        },
    },
}

/// Name of the module, for `rdma resource`.
const NAME: &CStr = c"rdma_ulp_check";
const PORT: u16 = 7472;
/// Bytes of what is exposed.
pub(crate) const SIZE: usize = 4096;

struct UlpCheck {
    listener: Arc<Peer>,
    bench: Arc<Bench>,
    /// Dropped last: connections need the devices.
    _devices: Registered<Bench>,
}

impl kernel::Module for UlpCheck {
    fn init(_: &'static ThisModule) -> Result<Self> {
        let bench = Bench::new()?;
        let devices = Registered::register(bench.clone(), rdma::resident!())?;
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
        let listener = Peer::listen(&bench, any)?;
        let module = Self {
            listener,
            bench,
            _devices: devices,
        };
        let address = param::<u32>(module_parameters::address.value());
        module.all(SocketAddr::from((Ipv4Addr::from(address), PORT)))?;
        Ok(module)
    }
}

impl Drop for UlpCheck {
    fn drop(&mut self) {
        self.listener.close();
        self.bench.close();
    }
}

/// Prints the result of a check.
fn tell(what: &str, result: Result) -> Result {
    match result {
        Ok(()) => pr_info!("ok - {what}\n"),
        Err(error) => pr_info!("not ok - {what}: {error:?}\n"),
    }
    result
}

fn ensure(is: bool) -> Result {
    if is {
        Ok(())
    } else {
        Err(EIO)
    }
}

impl UlpCheck {
    /// Carries out all checks.
    ///
    /// # Errors
    ///
    /// That of a check that has failed.
    fn all(&self, server: SocketAddr) -> Result {
        let results = [
            tell("a buffer that is too large is refused", self.large()),
            tell("a rejection has a reason and data", self.rejected(server)),
            tell(
                "a request that fails gives its queue pair back",
                self.failed(server),
            ),
            tell("refusals use no keys", self.keys(server)),
            tell("a handler does not wait for itself", self.entangled(server)),
        ];
        results.into_iter().collect()
    }

    /// Connects with private data that say what the server is to do, calls `check`, and closes.
    fn with(
        &self,
        server: SocketAddr,
        wish: &'static [u8],
        check: impl FnOnce(&Peer, Outcome) -> Result,
    ) -> Result {
        let client = Peer::connect(&self.bench, server, wish)?;
        let result = client.wait().and_then(|outcome| check(&client, outcome));
        client.close();
        self.bench.close();
        result
    }

    /// The kernel reports an allocation of this size if nobody tells it not to.
    fn large(&self) -> Result {
        let result = Buffer::new(&self.bench.any_pd()?, 1 << 30);
        ensure(result.err() == Some(ENOMEM))
    }

    fn rejected(&self, server: SocketAddr) -> Result {
        self.with(server, b"reject", |_, outcome| {
            ensure(matches!(
                outcome,
                Outcome::Rejected {
                    reason: 28,
                    data: true
                }
            ))?;
            // What a handler knows of the ends, while it cannot take the lock.
            ensure(self.bench.has_seen_ends())
        })
    }

    fn failed(&self, server: SocketAddr) -> Result {
        self.with(server, b"fail", |_, outcome| {
            ensure(matches!(outcome, Outcome::Rejected { .. }))?;
            ensure(self.bench.has_seen_flush())
        })
    }

    fn entangled(&self, server: SocketAddr) -> Result {
        self.with(server, ENTANGLE, |_, outcome| {
            ensure(matches!(outcome, Outcome::Entangled([true, true, true])))
        })
    }

    /// A peer knows the key of memory that it has had access to. That comes again after 255 others, and
    /// registrations that were refused are none of them.
    fn keys(&self, server: SocketAddr) -> Result {
        self.with(server, b"serve", |client, outcome| {
            ensure(matches!(outcome, Outcome::Connected))?;
            let qp = client.qp()?;
            let pd = qp.pd().clone();
            let region = qp.region().ok_or(EBUSY)?;
            let exposed = qp.expose(region, Buffer::new(&pd, SIZE)?, Access::ReadWrite)?;
            let old = exposed.remote().key;
            ensure(matches!(client.ended()?, Ended::Done(Done::Exposed)))?;
            qp.invalidate(exposed)?;
            let Ended::Done(Done::Invalidated(region, buffer)) = client.ended()? else {
                return Err(EIO);
            };
            // The peer has no receive for it.
            qp.send(Buffer::new(&pd, 8)?, 8)?;
            let (region, buffer) = refuse_all(&qp, region, buffer)?;
            self.bench.server()?.receive()?;
            ensure(matches!(client.ended()?, Ended::Sent))?;
            let exposed = qp.expose(region, buffer, Access::ReadWrite)?;
            let new = exposed.remote().key;
            ensure(matches!(client.ended()?, Ended::Done(Done::Exposed)))?;
            ensure(new == (old & !0xff) | (old.wrapping_add(1) & 0xff))
        })
    }
}

/// Exposes as often as a region has keys but one, at a queue pair that is full.
fn refuse_all(qp: &Qp<Peer>, region: Region, buffer: Buffer) -> Result<(Region, Buffer)> {
    let mut goods = (region, buffer);
    for _ in 0..255 {
        let (region, buffer) = goods;
        match qp.expose(region, buffer, Access::ReadWrite) {
            Err(refused) if refused.error == EBUSY => goods = refused.given,
            Err(refused) => return Err(refused.error),
            Ok(_) => return Err(EIO),
        }
    }
    Ok(goods)
}
