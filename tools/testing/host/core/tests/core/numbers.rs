// SPDX-License-Identifier: GPL-2.0

//! Numbers that the specification or a header of the kernel fixes.

use rdma_core_engines::proto::errno::Errno;
use rdma_core_engines::proto::mad::registry;
use rdma_core_engines::proto::mad::rmpp;
use rdma_core_engines::proto::mad::smi;
use rdma_core_engines::proto::mad::wire;
use rdma_core_engines::proto::nldev;
use rdma_core_engines::proto::nldev::stat;
use rdma_core_engines::proto::pkey::Pkey;
use rdma_core_engines::proto::port_cache::PortState;
use rdma_core_engines::proto::qp::Attrs;
use rdma_core_engines::proto::sa;
use rdma_core_engines::proto::sa::member;
use rdma_core_engines::proto::sa::path;

#[test]
fn error_numbers() {
    // include/uapi/asm-generic/errno-base.h, errno.h
    for (errno, number) in [
        (Errno::Eperm, 1),
        (Errno::Enoent, 2),
        (Errno::Eagain, 11),
        (Errno::Enomem, 12),
        (Errno::Ebusy, 16),
        (Errno::Eexist, 17),
        (Errno::Enodev, 19),
        (Errno::Einval, 22),
        (Errno::Enfile, 23),
        (Errno::Enospc, 28),
        (Errno::Erange, 34),
        (Errno::Enodata, 61),
        (Errno::Emsgsize, 90),
        (Errno::Eopnotsupp, 95),
    ] {
        assert_eq!(errno.to_ret(), -number, "{errno:?}");
    }
}

#[test]
fn management_datagrams() {
    // include/rdma/ib_mad.h, ib_smi.h, opa_smi.h
    assert_eq!((wire::MAD_SIZE, wire::OPA_MAD_SIZE), (256, 2048));
    assert_eq!((wire::HEADER, wire::RMPP_HEADER), (24, 36));
    assert_eq!((wire::VERSION, wire::OPA_VERSION), (1, 0x80));
    {
        use wire::class::*;
        assert_eq!([SMI_LID, SMI_DIRECTED, SA, BM], [0x01, 0x81, 0x03, 0x05]);
        assert_eq!([DEVICE_MGMT, CM, DEVICE_ADM, BIS], [0x06, 0x07, 0x10, 0x12]);
        assert_eq!([VENDOR_FIRST, VENDOR_LAST], [0x30, 0x4f]);
    }
    {
        use wire::method::*;
        assert_eq!([GET, SET, SEND, TRAP_REPRESS], [1, 2, 3, 7]);
        assert_eq!([RESPONSE, GET_RESP], [0x80, 0x81]);
    }
    assert_eq!(wire::CLASS_PORT_INFO, 1);
    assert_eq!((registry::CLASS_END, registry::VERSION_END), (80, 0x83));
    assert_eq!(registry::VENDORS, 8);
    assert_eq!(smi::HOPS, 64);
    assert_eq!((smi::opa_headers(true), smi::opa_headers(false)), (176, 32));
}

#[test]
fn transfers_of_many_datagrams() {
    // IBTA 13.6.2, tables 171 to 174
    assert_eq!(rmpp::VERSION, 1);
    {
        use rmpp::flag::*;
        assert_eq!([ACTIVE, FIRST, LAST, ALL], [1, 2, 4, 7]);
    }
    {
        use rmpp::status::*;
        assert_eq!([SUCCESS, NO_RESOURCES, TOO_LONG], [0, 1, 118]);
        assert_eq!([BAD_SEGMENT, BAD_TYPE], [120, 121]);
        assert_eq!([WINDOW_TOO_SMALL, SEGMENT_TOO_BIG], [122, 123]);
        assert_eq!([BAD_STATUS, BAD_VERSION, ABORT_LAST], [124, 125, 127]);
    }
}

#[test]
fn components_of_records() {
    // include/rdma/ib_sa.h
    {
        use path::component::*;
        assert_eq!(SERVICE_ID, 1 << 0 | 1 << 1);
        for (mask, bit) in [
            (DGID, 2),
            (SGID, 3),
            (TRAFFIC_CLASS, 10),
            (REVERSIBLE, 11),
            (PKEY, 13),
            (QOS_CLASS, 14),
        ] {
            assert_eq!(mask, 1 << bit, "path {bit}");
        }
    }
    use member::component::*;
    let all = [
        MGID,
        PORT_GID,
        QKEY,
        MLID,
        MTU_SELECTOR,
        MTU,
        TRAFFIC_CLASS,
        PKEY,
        RATE_SELECTOR,
        RATE,
        LIFE_TIME_SELECTOR,
        LIFE_TIME,
        SL,
        FLOW_LABEL,
        HOP_LIMIT,
        SCOPE,
        JOIN_STATE,
    ];
    for (bit, mask) in all.into_iter().enumerate() {
        assert_eq!(mask, 1 << bit, "member {bit}");
    }
    assert_eq!(sa::DATA, 200);
    assert_eq!((sa::MULTICAST_LIDS, sa::PERMISSIVE_LID), (0xc000, 0xffff));
    assert_eq!(sa::WELL_KNOWN_GUID, 0x0200_0000_0000_0002);
    assert_eq!((sa::query::ID_BITS, sa::query::SEQ_BITS), (31, 32));
}

#[test]
fn attributes_of_queue_pairs() {
    // enum ib_qp_attr_mask
    let all = [
        Attrs::STATE,
        Attrs::CUR_STATE,
        Attrs::EN_SQD_ASYNC_NOTIFY,
        Attrs::ACCESS_FLAGS,
        Attrs::PKEY_INDEX,
        Attrs::PORT,
        Attrs::QKEY,
        Attrs::AV,
        Attrs::PATH_MTU,
        Attrs::TIMEOUT,
        Attrs::RETRY_CNT,
        Attrs::RNR_RETRY,
        Attrs::RQ_PSN,
        Attrs::MAX_QP_RD_ATOMIC,
        Attrs::ALT_PATH,
        Attrs::MIN_RNR_TIMER,
        Attrs::SQ_PSN,
        Attrs::MAX_DEST_RD_ATOMIC,
        Attrs::PATH_MIG_STATE,
        Attrs::CAP,
        Attrs::DEST_QPN,
    ];
    for (bit, attr) in all.into_iter().enumerate() {
        assert_eq!(attr, Attrs(1 << bit), "{bit}");
    }
    assert_eq!(Attrs::RATE_LIMIT, Attrs(1 << 25));
    assert!(Attrs::NONE.is_empty() && !Attrs::STATE.is_empty());
    assert!(!Attrs::NONE.has_any(Attrs(!0)) && Attrs(3).has_any(Attrs::CUR_STATE));
}

#[test]
fn the_rest() {
    // include/uapi/rdma/rdma_netlink.h
    assert_eq!(nldev::CLIENT, 5);
    assert_eq!(
        (stat::MODE_NONE, stat::MODE_AUTO, stat::MODE_MANUAL),
        (0, 1, 2)
    );
    assert_eq!((stat::MASK_QP_TYPE, stat::MASK_PID), (1, 2));
    // enum ib_port_state
    let names = ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];
    for (raw, name) in (0..).zip(names) {
        assert_eq!(PortState(raw).name(), name);
    }
    assert_eq!(
        (PortState::NOP, PortState::ACTIVE),
        (PortState(0), PortState(4))
    );
    assert_eq!(Pkey::DEFAULT, Pkey(0xffff));
}
