// SPDX-License-Identifier: GPL-2.0

//! `nldev`: numbers, requests, and answers byte for byte as the C core of Linux
//! 7.2 gave them for a soft-RoCE device in a namespace with `rping -s` and a
//! process that had made one object of each kind.

use rdma_core_engines::proto::netns::Mode;
use rdma_core_engines::proto::nla::Align64;
use rdma_core_engines::proto::nla::Attrs;
use rdma_core_engines::proto::nla::Entry;
use rdma_core_engines::proto::nla::Full;
use rdma_core_engines::proto::nla::Kind as Policy;
use rdma_core_engines::proto::nla::Slice;
use rdma_core_engines::proto::nla::Strictness;
use rdma_core_engines::proto::nla::Why;
use rdma_core_engines::proto::nla::Writer;
use rdma_core_engines::proto::nldev::attr::policy;
use rdma_core_engines::proto::nldev::dev::Dev;
use rdma_core_engines::proto::nldev::dev::Handle;
use rdma_core_engines::proto::nldev::dev::IbPort;
use rdma_core_engines::proto::nldev::dev::Port;
use rdma_core_engines::proto::nldev::dev::PortNdev;
use rdma_core_engines::proto::nldev::dev::Protocol;
use rdma_core_engines::proto::nldev::dev::Sys;
use rdma_core_engines::proto::nldev::event;
use rdma_core_engines::proto::nldev::event::About;
use rdma_core_engines::proto::nldev::event::Chardev;
use rdma_core_engines::proto::nldev::frmr;
use rdma_core_engines::proto::nldev::res;
use rdma_core_engines::proto::nldev::res::Owner;
use rdma_core_engines::proto::nldev::stat;
use rdma_core_engines::proto::nldev::stat::PortHandle;
use rdma_core_engines::proto::nldev::stat::PortMode;
use rdma_core_engines::proto::nldev::stat::Switch;
use rdma_core_engines::proto::nldev::Attr;
use rdma_core_engines::proto::nldev::Command;
use rdma_core_engines::proto::nldev::Request;
use rdma_core_engines::proto::nldev::ATTR_MAX;
use rdma_core_engines::proto::restrack::Kind;
use rdma_core_engines::proto::restrack::Shown;

const DEV: &str = "\
    080001000000000009000200727865310000000008000300010000000c000400763c2201c00100000c000600\
    4dd0f1feff5585f80c0007004dd0f1feff5585f805000e000100000005005400000000000500650001000000\
    09004300726f636500000000";
const PORT: &str = "\
    0800010000000000090002007278653100000000080003000100000005000c000400000005000d0005000000\
    08003200040000000700330076310000";
const SYS: &str = "\
    05004200010000000500600000000000050067000100000005005d0001000000";
const RES: &str = "\
    0800010000000000090002007278653100000000b0000f001800100007001100706400000c00120003000000\
    000000001800100007001100637100000c00120002000000000000001800100007001100717000000c001200\
    05000000000000001c0010000a001100636d5f69640000000c00120001000000000000001800100007001100\
    6d7200000c00120001000000000000001800100008001100637478000c001200020000000000000018001000\
    08001100737271000c0012000100000000000000";
const QP: &str = "\
    0800010000000000090002007278653100000000540113004c001400080015001100000008003c0002000000\
    08001c0075000000080016000000000008001700000000000800180000000000050019000000000005001a00\
    0200000005001b00000000004c001400080015001200000008003c000200000008001c007500000008001600\
    0000000008001700000000000800180000000000050019000000000005001a000300000005001b0000000000\
    34001400080015001300000008003c000200000008001c0075000000080018000000000005001a0004000000\
    05001b00000000004c001400080015001400000008003c000200000008001c00750000000800160000000000\
    08001700000000000800180000000000050019000000000005001a000200000005001b000000000038001400\
    080003000100000008001500010000000c001d0069625f636f726500080018000000000005001a0001000000\
    05001b0003000000";
const CM: &str = "\
    080001000000000009000200727865310000000038011e0034011f0008000300010000000800200006010000\
    05001b00080000008400210002001c060a000101000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000840022000200000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000008003f000000000008001c0076000000";
const CQ: &str = "\
    0800010000000000090002007278653100000000780023003c00240008002500ff0300000c00260002000000\
    000000000500270002000000050054000000000008003d00000000000c001d0069625f636f72650038002400\
    080025007f0000000c0026000800000000000000050054000000000008003d00010000000800400001000000\
    08001c0075000000";
const MR: &str = "\
    08000100000000000900020072786531000000003c0028003800290008002a00b702000008002b00b7020000\
    0c002d00002000000000000008003e000000000008003c000200000008001c0075000000";
const PD: &str = "\
    080001000000000009000200727865310000000090002e002c002f0008003000920100000c00260001000000\
    0000000008003c00000000000c001d0069625f636f72650030002f0008003000000000000c00260000000000\
    0000000008003c0001000000080040000000000008001c007600000030002f0008003000000000000c002600\
    060000000000000008003c0002000000080040000100000008001c0075000000";
const CTX: &str = "\
    08000100000000000900020072786531000000002c00560014005700080040000000000008001c0076000000\
    14005700080040000100000008001c0075000000";
const SRQ: &str = "\
    0800010000000000090002007278653100000000380058003400590008005a000000000005001a0000000000\
    08003c0002000000100013800c001480080015001400000008001c0075000000";

const RXE1: Handle<'_> = Handle {
    index: 0,
    name: b"rxe1",
};
const CORE: Owner<'_> = Shown::KernelName(b"ib_core");
const PYVERBS: Owner<'_> = Shown::Pid(0x75);
const RPING: Owner<'_> = Shown::Pid(0x76);

fn hex(bytes: &[u8]) -> String {
    let digit = |value| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

/// The hexadecimal form of what is written.
fn written(fill: impl FnOnce(&mut Writer<Slice<'_>>) -> Result<(), Full>) -> String {
    let mut buf = [0xff; 4096];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    fill(&mut w).unwrap();
    hex(w.written())
}

/// A list of objects of a kind, after the device.
fn listed<T>(
    kind: Kind,
    objects: impl Iterator<Item = T>,
    put: impl Fn(&mut Writer<Slice<'_>>, T) -> Result<(), Full>,
) -> String {
    let table = res::table(kind).unwrap();
    written(|w| {
        RXE1.put(w)?;
        let listed = w
            .list(
                table.table.raw(),
                table.entry.raw(),
                objects,
                |w, object| Ok::<(), Entry<()>>(put(w, object)?),
            )
            .unwrap();
        assert!(!listed.more);
        Ok(())
    })
}

#[test]
fn numbers_are_the_headers() {
    assert_eq!(ATTR_MAX, 119);
    for (attr, number) in [
        (Attr::DevIndex, 1),
        (Attr::ResSummary, 15),
        (Attr::ResLqpn, 21),
        (Attr::ResDstAddr, 34),
        (Attr::NdevName, 51),
        (Attr::ResPdn, 60),
        (Attr::SysNetnsMode, 66),
        (Attr::DevDim, 84),
        (Attr::ResSrqn, 90),
        (Attr::NameAssignType, 101),
        (Attr::FrmrPoolKeyKernelVendorKey, 117),
    ] {
        assert_eq!(attr.raw(), number, "{attr:?}");
    }
    assert_eq!(policy(0), Policy::Unnamed);
    assert_eq!(policy(2), Policy::Text(64));
    assert_eq!(policy(33), Policy::AtLeast(128));
    assert_eq!(policy(118), Policy::U64);
    assert_eq!(policy(119), Policy::Unnamed);
    let known: Vec<u16> = (0..1024)
        .filter(|raw| Command::from_type(5 << 10 | raw).is_some())
        .collect();
    let all: Vec<u16> = (1..=30).filter(|raw| *raw != 8).collect();
    assert_eq!(known, all);
    for raw in all {
        let command = Command::from_type(5 << 10 | raw).unwrap();
        assert_eq!(command.message_type(), 5 << 10 | raw);
    }
    assert_eq!(Command::from_type(1), None, "another client's");
    let admin: Vec<u16> = (1..=30)
        .filter(|r| Command::from_type(5 << 10 | r).is_some_and(Command::needs_admin))
        .collect();
    assert_eq!(admin, [2, 3, 4, 7, 16, 18, 19, 20, 21, 25, 26, 27, 30]);
}

#[test]
fn devices_and_ports() {
    let dev = Dev {
        handle: RXE1,
        ports: 1,
        cap_flags: 0x01c0_0122_3c76,
        fw_version: b"",
        node_guid: 0xf885_55ff_fef1_d04d,
        sys_image_guid: 0xf885_55ff_fef1_d04d,
        node_type: 1,
        dim: false,
        dev_type: 0,
        parent: None,
        name_assign_type: 1,
        protocol: Some(Protocol::Roce),
    };
    assert_eq!(written(|w| dev.put(w)), DEV);
    let port = Port {
        handle: RXE1,
        port: 1,
        ib: None,
        state: 4,
        phys_state: 5,
        ndev: Some(PortNdev {
            index: 4,
            name: b"v1",
        }),
    };
    assert_eq!(written(|w| port.put(w)), PORT);
    let sys = Sys {
        netns_mode: Mode::Shared,
        privileged_qkey: false,
    };
    assert_eq!(written(|w| sys.put(w)), SYS);
}

#[test]
fn attributes_that_soft_roce_lacks() {
    let dev = Dev {
        handle: RXE1,
        ports: 2,
        cap_flags: 1,
        fw_version: b"1.2",
        node_guid: 2,
        sys_image_guid: 3,
        node_type: 1,
        dim: true,
        dev_type: 1,
        parent: Some(b"mlx5_0"),
        name_assign_type: 1,
        protocol: None,
    };
    let mut buf = [0; 256];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    dev.put(&mut w).unwrap();
    let order: Vec<u16> = Attrs::new(w.written()).map(|a| a.attr).collect();
    let names = [
        Attr::DevIndex,
        Attr::DevName,
        Attr::PortIndex,
        Attr::CapFlags,
        Attr::FwVersion,
        Attr::NodeGuid,
        Attr::SysImageGuid,
        Attr::DevNodeType,
        Attr::DevDim,
        Attr::DevType,
        Attr::ParentName,
        Attr::NameAssignType,
    ];
    assert_eq!(order, names.map(Attr::raw));

    let port = Port {
        handle: RXE1,
        port: 1,
        ib: Some(IbPort {
            cap_flags: 1,
            subnet_prefix: 0xfe80 << 48,
            lid: 3,
            sm_lid: 1,
            lmc: 2,
        }),
        state: 4,
        phys_state: 5,
        ndev: None,
    };
    let mut buf = [0; 256];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    port.put(&mut w).unwrap();
    let order: Vec<u16> = Attrs::new(w.written()).map(|a| a.attr).collect();
    assert_eq!(order, [1, 2, 3, 4, 8, 9, 10, 11, 12, 13]);
}

#[test]
fn summary() {
    let number = |kind| res::Number {
        now: match kind {
            Kind::Pd => 3,
            Kind::Cq | Kind::Ctx => 2,
            Kind::Qp => 5,
            Kind::CmId | Kind::Mr | Kind::Srq => 1,
            Kind::Counter | Kind::Dmah | Kind::CompCntr => panic!("not in the summary"),
        },
        max: 0,
    };
    let (kinds, _) = Kind::ALL.split_at(9);
    let summary = written(|w| res::put_summary(w, &RXE1, kinds, number));
    assert_eq!(summary, RES);
}

/// The limit follows the number, where it is known, and kinds of newer kernels come last.
#[test]
fn summary_with_limits() {
    let number = |kind| match kind {
        Kind::Pd => res::Number { now: 3, max: 0 },
        Kind::CompCntr => res::Number { now: 1, max: 7 },
        _ => panic!("not asked for"),
    };
    let mut buf = [0; 256];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    res::put_summary(&mut w, &RXE1, &[Kind::Pd, Kind::CompCntr], number).unwrap();
    let table = Attrs::new(w.written())
        .find(|attr| attr.attr == Attr::ResSummary.raw())
        .unwrap();
    let entries: Vec<Vec<(u16, Vec<u8>)>> = Attrs::new(table.payload)
        .map(|entry| {
            Attrs::new(entry.payload)
                .map(|attr| (attr.attr, attr.payload.to_vec()))
                .collect()
        })
        .collect();
    let name = Attr::ResSummaryEntryName.raw();
    let now = Attr::ResSummaryEntryCurr.raw();
    let pd = vec![(name, b"pd\0".to_vec()), (now, 3_u64.to_ne_bytes().into())];
    let comp_cntr = vec![
        (name, b"comp_cntr\0".to_vec()),
        (now, 1_u64.to_ne_bytes().into()),
        (118, 7_u64.to_ne_bytes().into()),
    ];
    assert_eq!(entries, [pd, comp_cntr]);
}

#[test]
fn queue_pairs() {
    let user = |lqpn, qp_type| res::Qp {
        port: 0,
        lqpn,
        pdn: Some(2),
        owner: PYVERBS,
        peer: (qp_type != 4).then_some((0, 0)),
        sq_psn: 0,
        path_mig_state: (qp_type != 4).then_some(0),
        qp_type,
        state: 0,
    };
    let gsi = res::Qp {
        port: 1,
        lqpn: 1,
        pdn: None,
        owner: CORE,
        peer: None,
        sq_psn: 0,
        path_mig_state: None,
        qp_type: 1,
        state: 3,
    };
    let all = [user(17, 2), user(18, 3), user(19, 4), user(20, 2), gsi];
    let list = listed(Kind::Qp, all.iter(), |w, qp| qp.put(w));
    assert_eq!(list, QP);
}

#[test]
fn connection_ids() {
    let mut src = [0; 128];
    src[..8].copy_from_slice(&[2, 0, 0x1c, 0x06, 10, 0, 1, 1]);
    let mut dst = [0; 128];
    dst[0] = 2;
    let id = res::CmId {
        port: 1,
        qp: None,
        port_space: 0x106,
        state: 8,
        src_addr: Some(&src),
        dst_addr: Some(&dst),
        cm_idn: 0,
        owner: RPING,
    };
    let list = listed(Kind::CmId, [id].iter(), |w, id| id.put(w));
    assert_eq!(list, CM);
}

#[test]
fn completion_queues() {
    let core = res::Cq {
        cqe: 1023,
        usecnt: 2,
        poll_ctx: Some(2),
        dim: false,
        cqn: 0,
        ctxn: None,
        owner: CORE,
    };
    let user = res::Cq {
        cqe: 127,
        usecnt: 8,
        poll_ctx: None,
        dim: false,
        cqn: 1,
        ctxn: Some(1),
        owner: PYVERBS,
    };
    let list = listed(Kind::Cq, [core, user].iter(), |w, cq| cq.put(w));
    assert_eq!(list, CQ);
}

#[test]
fn memory_regions() {
    let mr = res::Mr {
        keys: Some((0x2b7, 0x2b7)),
        length: 8192,
        mrn: 0,
        pdn: Some(2),
        owner: PYVERBS,
    };
    assert_eq!(listed(Kind::Mr, [mr].iter(), |w, mr| mr.put(w)), MR);
    // Who is no administrator sees no keys.
    let seen = res::Mr { keys: None, ..mr };
    let list = written(|w| seen.put(w));
    assert!(list.starts_with("0c002d00"), "{list}");
}

#[test]
fn protection_domains_and_contexts() {
    let pd = |local_dma_lkey, usecnt, pdn, ctxn, owner| res::Pd {
        local_dma_lkey: Some(local_dma_lkey),
        unsafe_global_rkey: None,
        usecnt,
        pdn,
        ctxn,
        owner,
    };
    let all = [
        pd(0x192, 1, 0, None, CORE),
        pd(0, 0, 1, Some(0), RPING),
        pd(0, 6, 2, Some(1), PYVERBS),
    ];
    assert_eq!(listed(Kind::Pd, all.iter(), |w, pd| pd.put(w)), PD);
    let all = [(0, RPING), (1, PYVERBS)].map(|(ctxn, owner)| res::Ctx { ctxn, owner });
    assert_eq!(listed(Kind::Ctx, all.iter(), |w, ctx| ctx.put(w)), CTX);
}

fn srq(qpns: &[u32]) -> res::Srq<'static, impl Iterator<Item = u32> + Clone + '_> {
    res::Srq {
        srqn: 0,
        srq_type: 0,
        pdn: 2,
        cqn: None,
        qpns: qpns.iter().copied(),
        owner: PYVERBS,
    }
}

#[test]
fn shared_receive_queues() {
    let list = listed(Kind::Srq, [srq(&[20])].iter(), |w, srq| {
        srq.put(w).map_err(|_| Full)
    });
    assert_eq!(list, SRQ);

    let mut buf = [0; 256];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    srq(&[5, 6, 7, 9, 11, 12]).put(&mut w).unwrap();
    let table = Attrs::new(w.written()).find(|a| a.attr == Attr::ResQp.raw());
    let runs: Vec<Vec<u32>> = table
        .unwrap()
        .attrs()
        .map(|run| run.attrs().filter_map(|a| a.u32()).collect())
        .collect();
    assert_eq!(runs, [vec![5, 7], vec![9], vec![11, 12]]);
    assert!(srq(&[5, 5]).put(&mut w).is_err());
    srq(&[u32::MAX]).put(&mut w).unwrap();
}

#[test]
fn requests() {
    let ask = |bytes: &[u8], strictness| {
        Request::parse(bytes, strictness, ATTR_MAX)
            .map(|r| {
                (
                    r.u32(Attr::DevIndex),
                    r.text(Attr::DevName, 63).map(Vec::from),
                )
            })
            .map_err(|refusal| refusal.why)
    };
    // As the C core answered: a number that is too long, and what nobody knows,
    // are errors only where something is changed.
    let long = [10, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(ask(&long, Strictness::Liberal), Ok((Some(1), None)));
    assert_eq!(ask(&long, Strictness::Strict), Err(Why::Length));
    let unknown = [8, 0, 1, 0, 1, 0, 0, 0, 8, 0, 200, 0, 1, 0, 0, 0];
    assert_eq!(ask(&unknown, Strictness::Liberal), Ok((Some(1), None)));
    assert_eq!(ask(&unknown, Strictness::Strict), Err(Why::UnknownType));
    let short = [6, 0, 1, 0, 1, 0, 0, 0];
    assert_eq!(ask(&short, Strictness::Liberal), Err(Why::Range));
    let no_end = [7, 0, 2, 0, b'a', b'b', b'c', 0];
    assert_eq!(ask(&no_end, Strictness::Strict), Err(Why::NoEnd));
    let name = [9, 0, 2, 0, b'r', b'x', b'e', b'1', 0];
    assert_eq!(
        ask(&name, Strictness::Strict),
        Ok((None, Some(b"rxe1".to_vec())))
    );
    // 64 bytes and an end pass, and are cut; one more does not.
    for (len, passes) in [(63, true), (64, true), (65, false)] {
        let mut bytes = vec![(len + 5) as u8, 0, 2, 0];
        bytes.extend(vec![b'a'; len]);
        bytes.push(0);
        let asked = ask(&bytes, Strictness::Strict);
        assert_eq!(asked.is_ok(), passes, "{len}");
        if let Ok((_, name)) = asked {
            assert_eq!(name.unwrap().len(), 63);
        }
    }
}

const RXE0_PORT: PortHandle<'_> = PortHandle {
    device: Handle {
        index: 0,
        name: b"rxe0",
    },
    port: 1,
};

/// What every answer about that port begins with.
const ABOUT_PORT: &str = "08000100000000000900020072786530000000000800030001000000";

#[test]
fn values_of_counters() {
    let values = [(&b"sent_pkts"[..], 0), (b"rcvd_pkts", 7)];
    let list = written(|w| {
        RXE0_PORT.put(w)?;
        stat::put_values(w, values.into_iter())
    });
    let want = "44005080200051800e00520073656e745f706b74730000000c0053000000000000000000\
        200051800e005200726376645f706b74730000000c0053000700000000000000";
    assert_eq!(list, format!("{ABOUT_PORT}{want}"));
    assert_eq!(
        written(|w| stat::put_values(w, core::iter::empty())),
        "04005080"
    );
}

#[test]
fn status_of_counters() {
    let counters = [
        (&b"sent_pkts"[..], Switch::Fixed),
        (b"rcvd_pkts", Switch::Optional(true)),
    ];
    let want = "440050801c0051800e00520073656e745f706b747300000008005e0000000000\
        240051800e005200726376645f706b747300000008005e000100000005005f0001000000";
    assert_eq!(written(|w| stat::put_status(w, counters.into_iter())), want);
}

#[test]
fn modes_of_ports() {
    let put = |mode| {
        written(|w| {
            let (mask, optional) = (3, false);
            PortMode {
                mode,
                mask,
                optional,
            }
            .put(w)
        })
    };
    assert_eq!(
        put(stat::MODE_AUTO),
        "08004a000100000008004c00030000000500680000000000"
    );
    assert_eq!(put(stat::MODE_NONE), "08004a0000000000");
}

#[test]
fn bound_counters() {
    let counter = |mode| stat::Counter {
        port: 1,
        id: 5,
        mode,
        qp_type: Some(2),
        owner: Some(RPING),
        qpns: [17, 19].into_iter(),
    };
    let qps = "1c001380\
        0c00148008001500110000000c0014800800150013000000";
    let manual = written(|w| counter(stat::MODE_MANUAL).put(w));
    assert_eq!(
        manual,
        format!("080003000100000008004f000500000008004a0002000000{qps}")
    );
    // Only of a rule is it said what it looks at.
    let auto = written(|w| counter(stat::MODE_AUTO).put(w));
    assert!(auto.len() > manual.len() && auto.contains("05001a0002000000"));
    // And whose it is, as of every object.
    let nobodys = written(|w| {
        let owner = None;
        let counter = counter(stat::MODE_AUTO);
        stat::Counter { owner, ..counter }.put(w)
    });
    let owner = written(|w| {
        let mut counter = counter(stat::MODE_AUTO);
        counter.owner = Some(Shown::Pid(0x1234));
        counter.put(w)
    });
    assert_eq!(owner.len(), nobodys.len() + 16);
    assert!(owner.contains("34120000") && !nobodys.contains("34120000"));
}

#[test]
fn events() {
    let put = |kind, about| written(|w| event::put(w, kind, &about));
    let handle = Handle {
        index: 1,
        name: b"rxe1",
    };
    let ndev = |name| PortNdev { index: 4, name };
    assert_eq!(
        put(event::Kind::Register, About::Device(handle)),
        "08000100010000000900020072786531000000000500660000000000"
    );
    assert_eq!(
        put(
            event::Kind::NetdevAttach,
            About::Port(handle, 1, Some(ndev(b"d1")))
        ),
        "08000100010000000900020072786531000000000800030001000000\
         080032000400000007003300643100000500660002000000"
    );
    assert_eq!(
        put(event::Kind::NetdevRename, About::Ndev(ndev(b"d8"))),
        "080032000400000007003300643800000500660005000000"
    );
    assert_eq!(
        put(event::Kind::NetdevDetach, About::Hidden),
        "0500660003000000"
    );
}

#[test]
fn character_devices() {
    let umad = Chardev {
        number: 0xe700,
        abi: 5,
        name: b"umad0",
    };
    assert_eq!(
        written(|w| umad.put(w)),
        "0c00480000e70000000000000c00470005000000000000000a004600756d616430000000"
    );
}

#[test]
fn every_command_says_who_may_ask_and_how_it_is_answered() {
    let all = (0..64).filter_map(|op| Command::from_type(5 << 10 | op));
    let (mut lists, mut admin) = (0, 0);
    for command in all {
        assert_eq!(Command::from_type(command.message_type()), Some(command));
        lists += usize::from(command.has_list());
        admin += usize::from(command.needs_admin());
        let silent = matches!(command, Command::Monitor);
        assert_eq!(command.has_answer() || command.has_list(), !silent);
    }
    // As many as in the C core's table.
    assert_eq!((lists, admin), (16, 13));
}

#[test]
fn numbers_of_every_width_are_read() {
    let attr = Attr::FrmrPoolKeyVendorKey;
    let mut bytes = [12, 0, attr.raw() as u8, 0].to_vec();
    bytes.extend(0x0102_0304_0506_0708_u64.to_ne_bytes());
    let request = Request::parse(&bytes, Strictness::Strict, ATTR_MAX).unwrap();
    assert_eq!(request.u64(attr), Some(0x0102_0304_0506_0708));
    assert_eq!(request.u64(Attr::FrmrPoolKeyNumDmaBlocks), None);
    let bytes = [5, 0, Attr::DevDim.raw() as u8, 0, 1, 0, 0, 0];
    let request = Request::parse(&bytes, Strictness::Strict, ATTR_MAX).unwrap();
    assert_eq!(request.u8(Attr::DevDim), Some(1));
}

#[test]
fn attributes_of_a_newer_kernel_are_unknown() {
    let last = Attr::ResSummaryEntryMax;
    // Four bytes, where the policy says eight.
    let bytes = [8, 0, last.raw() as u8, 0, 1, 0, 0, 0];
    let refused = |types| Request::parse(&bytes, Strictness::Strict, types).map_err(|it| it.why);
    assert_eq!(refused(ATTR_MAX).err(), Some(Why::Length));
    assert_eq!(refused(ATTR_MAX - 1).err(), Some(Why::UnknownType));
    let request = Request::parse(&bytes, Strictness::Liberal, ATTR_MAX - 1).unwrap();
    assert!(!request.has(last));
}

#[test]
fn the_last_of_several_counts() {
    let twice = [8, 0, 1, 0, 1, 0, 0, 0, 8, 0, 1, 0, 2, 0, 0, 0];
    let request = Request::parse(&twice, Strictness::Strict, ATTR_MAX).unwrap();
    assert_eq!(request.u32(Attr::DevIndex), Some(2));
    assert!(request.has(Attr::DevIndex) && !request.has(Attr::DevName));
}

#[test]
fn pools_of_regions() {
    let pool = |kernel_vendor_key| frmr::Pool {
        ats: true,
        access_flags: 7,
        vendor_key: 1,
        kernel_vendor_key,
        blocks: 16,
        free: 3,
        max_in_use: 5,
        in_use: 4,
        pinned: 2,
    };
    let attrs = |pool: frmr::Pool| {
        let mut buf = [0; 256];
        let mut w = Writer::new(&mut buf, Align64::Packed);
        pool.put(&mut w).unwrap();
        let all = Attrs::new(w.written());
        let key: Vec<_> = all
            .clone()
            .flat_map(|attr| attr.attrs().map(|attr| attr.attr).collect::<Vec<_>>())
            .filter(|attr| *attr > Attr::FrmrPoolKey.raw())
            .collect();
        (all.map(|attr| attr.attr).collect::<Vec<_>>(), key)
    };
    let first = Attr::FrmrPoolKey.raw();
    let (user, key) = attrs(pool(0));
    assert_eq!(user, [first, first + 5, first + 6, first + 7, first + 9]);
    assert_eq!(key, [first + 1, first + 2, first + 3, first + 4]);
    // Only the kernel's have a key of their own.
    assert_eq!(
        attrs(pool(1)).1.last(),
        Some(&Attr::FrmrPoolKeyKernelVendorKey.raw())
    );
}
