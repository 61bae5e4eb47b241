// SPDX-License-Identifier: GPL-2.0

//! echo: a service over connections that sends back what it receives, and a client of it.
//!
//! An example of an upper-layer protocol in Rust, without unsafe code. `Documentation/ulp.md`
//! explains it.
//!
//! - `main.rs`: the module and its parameters (this file);
//! - `service.rs`: devices and connections;
//! - `peer.rs`: an end of a connection: listener, server, or client;
//! - `transfer.rs`: data that go by RDMA;
//! - `job.rs`: what a client sends and expects.

mod job;
mod peer;
mod service;
mod transfer;

use crate::job::Job;
use crate::peer::Peer;
use crate::service::Service;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::net::SocketAddr;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::client::Registered;
use rdma::features::param;

rdma::resident_module! { struct Main(EchoModule); }

module! {
    type: Main,
    name: "rdma_echo",
    authors: ["The rust-rdma authors"],
    description: "Example of a protocol over RDMA connections: echo",
    license: "GPL",
    params: {
        port: u16 {
            default: 7471,
            description: "TCP port number of the service",
        },
        address: u32 {
            default: 0,
            description: "IPv4 address, as a number, of a service to try when the module is loaded",
        },
        count: u32 {
            default: 100,
            description: "Number of messages to send there",
        },
        size: u32 {
            default: 4096,
            description: "Bytes of each message",
        },
        rdma: u8 {
            default: 0,
            description: "1: the service reads and writes the data by RDMA",
        },
    },
}

/// Name of the module, for `rdma resource`.
const NAME: &CStr = c"rdma_echo";

struct EchoModule {
    listener: Arc<Peer>,
    service: Arc<Service>,
    /// Dropped last: connections need the devices.
    _devices: Registered<Service>,
}

impl kernel::Module for EchoModule {
    fn init(_: &'static ThisModule) -> Result<Self> {
        let port = param::<u16>(module_parameters::port.value());
        let service = Service::new()?;
        let devices = Registered::register(service.clone(), rdma::resident!())?;
        // On all addresses, of IPv4, too.
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let listener = Peer::listen(&service, any)?;
        let module = Self {
            listener,
            service,
            _devices: devices,
        };
        let address = param::<u32>(module_parameters::address.value());
        if address != 0 {
            let server = SocketAddr::from((Ipv4Addr::from(address), port));
            module.try_out(server)?;
        }
        Ok(module)
    }
}

impl EchoModule {
    /// Sends messages to a service and checks what comes back.
    fn try_out(&self, server: SocketAddr) -> Result {
        let (count, size) = (
            param::<u32>(module_parameters::count.value()),
            param::<u32>(module_parameters::size.value()),
        );
        let by_rdma = param::<u8>(module_parameters::rdma.value()) != 0;
        let client = Peer::connect(&self.service, server, Job::new(count, size)?, by_rdma)?;
        let result = client.wait();
        client.disconnect();
        self.service.forget(&client);
        result.inspect(|()| pr_info!("{count} messages of {size} bytes came back\n"))
    }
}

impl Drop for EchoModule {
    fn drop(&mut self) {
        // No new connections after this.
        self.listener.close();
        self.service.close_all(|_| true);
        self.service.end();
    }
}
