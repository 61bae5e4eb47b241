// SPDX-License-Identifier: GPL-2.0

//! What `rdma_cm` decides.

mod addr;
mod event;
mod listener;
mod option;
mod port;
mod races;
mod route;
mod state;
mod wire;

use rdma_cma_engines::proto::addr::Address;
use rdma_cma_engines::proto::addr::Ib;
use rdma_cma_engines::proto::addr::V4;
use rdma_cma_engines::proto::addr::V6;

fn v4(a: u8, b: u8, c: u8, d: u8, port: u16) -> Address {
    Address::V4(V4 {
        addr: [a, b, c, d],
        port,
    })
}

fn v6(text: &str, port: u16) -> Address {
    Address::V6(V6 {
        addr: text.parse::<std::net::Ipv6Addr>().unwrap().octets(),
        port,
        flow: 0,
        scope: 0,
    })
}

fn scoped(text: &str, port: u16, scope: u32) -> Address {
    let Address::V6(v6) = v6(text, port) else {
        unreachable!()
    };
    Address::V6(V6 { scope, ..v6 })
}

fn ib(last: u8, sid: u64, mask: u64) -> Address {
    let mut addr = [0; 16];
    addr[15] = last;
    Address::Ib(Ib {
        addr,
        pkey: 0xffff,
        flow: 0,
        sid,
        mask,
        scope: 0,
    })
}
