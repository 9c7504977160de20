//! The programs of a stack: for each, a folder as its image has it, named as the rig's images are.
//!
//! Programs that are scripts around a JVM have the names and arguments of the real ones, and times that a test can wait
//! for. Must not know what runs them, nor what a test wants of them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::debian::ALL;
use crate::operator::beside;
use crate::sandbox::UNREADY;
use crate::tools::jars;

/// As ZooKeeper's own program of that name: `--config FOLDER start-foreground`.
const ZOOKEEPER: &str = "#!/bin/sh
[ \"$1 $3\" = '--config start-foreground' ] || exit 2
exec java -Xmx64m -Xshare:auto -XX:TieredStopAtLevel=1 -cp '/dev/image/lib/*' \\
    org.apache.zookeeper.server.quorum.QuorumPeerMain \"$2/zoo.cfg\"
";

/// And its client.
const CLI: &str = "#!/bin/sh
exec java -Xmx32m -Xshare:auto -XX:TieredStopAtLevel=1 -cp '/dev/image/lib/*' org.apache.zookeeper.ZooKeeperMain \"$@\"
";

/// As Cassandra's own program.
const CASSANDRA: &str = "#!/bin/bash
[ \"$*\" = '-f -R' ] && [ \"$LOCAL_JMX\" = no ] || exit 2
exec java -Xms${MAX_HEAP_SIZE:-384M} -Xmx${MAX_HEAP_SIZE:-384M} -Xss512k -Xshare:auto -XX:TieredStopAtLevel=1 \\
    -XX:+UseSerialGC @/dev/image/conf/java.options \\
    -Djdk.attach.allowAttachSelf=true -Djava.io.tmpdir=/tmp -Djava.awt.headless=true \\
    -Dlogback.configurationFile=/dev/image/conf/logback.xml -Dcassandra-foreground=yes \\
    -Dcassandra.config=file://$CASSANDRA_CONF/cassandra.yaml -Dcassandra.storagedir=/var/lib/cassandra \\
    -Dcassandra.jmx.remote.port=7199 -Dcom.sun.management.jmxremote.authenticate=true \\
    -Dcassandra.ring_delay_ms=5000 -Dcassandra.broadcast_interval_ms=5000 -Dcassandra.gossip_settle_min_wait_ms=500 \\
    -Dcassandra.gossip_settle_interval_ms=200 -Dcassandra.superuser_setup_delay_ms=1000 $JVM_EXTRA_OPTS \\
    -cp '/dev/image/lib/*' org.apache.cassandra.service.CassandraDaemon
";

/// And the program that asks it.
const NODETOOL: &str = "#!/bin/bash
words=() tls=
for word; do
    if [ \"$word\" = --ssl ]; then
        tls=\"-Dssl.enable=true $(cat \"$HOME/.cassandra/nodetool-ssl.properties\")\"
    else
        words+=(\"$word\")
    fi
done
exec java -Xmx64m -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC @/dev/image/conf/java.options $tls \\
    -Dlogback.configurationFile=/dev/image/conf/logback-tools.xml \\
    -cp '/dev/image/lib/*' org.apache.cassandra.tools.NodeTool -p 7199 \"${words[@]}\"
";

/// What both use of Java's own since version 17.
const INTERNALS: &str = "
--add-exports java.base/java.lang.ref=ALL-UNNAMED
--add-exports java.base/jdk.internal.misc=ALL-UNNAMED
--add-exports java.base/jdk.internal.ref=ALL-UNNAMED
--add-exports java.base/sun.nio.ch=ALL-UNNAMED
--add-exports java.management/com.sun.jmx.remote.security=ALL-UNNAMED
--add-exports java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED
--add-exports java.rmi/sun.rmi.registry=ALL-UNNAMED
--add-exports java.rmi/sun.rmi.server=ALL-UNNAMED
--add-exports java.sql/java.sql=ALL-UNNAMED
--add-opens java.base/java.io=ALL-UNNAMED
--add-opens java.base/java.lang=ALL-UNNAMED
--add-opens java.base/java.lang.module=ALL-UNNAMED
--add-opens java.base/java.lang.reflect=ALL-UNNAMED
--add-opens java.base/java.math=ALL-UNNAMED
--add-opens java.base/java.net=ALL-UNNAMED
--add-opens java.base/java.nio=ALL-UNNAMED
--add-opens java.base/java.util=ALL-UNNAMED
--add-opens java.base/java.util.concurrent=ALL-UNNAMED
--add-opens java.base/java.util.concurrent.atomic=ALL-UNNAMED
--add-opens java.base/jdk.internal.loader=ALL-UNNAMED
--add-opens java.base/jdk.internal.math=ALL-UNNAMED
--add-opens java.base/jdk.internal.module=ALL-UNNAMED
--add-opens java.base/jdk.internal.ref=ALL-UNNAMED
--add-opens java.base/jdk.internal.reflect=ALL-UNNAMED
--add-opens java.base/jdk.internal.util.jar=ALL-UNNAMED
--add-opens java.base/sun.nio.ch=ALL-UNNAMED
--add-opens jdk.management/com.sun.management.internal=ALL-UNNAMED
";

/// What both print: what matters, and nothing at all.
const LOGS: &[(&str, &str)] = &[
    (
        "logback.xml",
        "<configuration><appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\"><encoder>
         <pattern>%-5level %date %logger{0} %msg%n</pattern></encoder></appender>
         <root level=\"INFO\"><appender-ref ref=\"OUT\"/></root></configuration>",
    ),
    ("logback-tools.xml", "<configuration><root level=\"OFF\"/></configuration>"),
];

/// Programs of OpenSDN, whose images are not available: the same stand-in, by the name under which it is started.
const OPENSDN: &[&str] = &[
    "contrail-analytics-api",
    "contrail-api",
    "contrail-collector",
    "contrail-control",
    "contrail-device-manager",
    "contrail-dns",
    "contrail-kube-manager",
    "contrail-query-engine",
    "contrail-schema",
    "contrail-svc-monitor",
    "contrail-vrouter-agent",
    "node",
    "provisioner",
];

/// Makes all of them.
pub fn stacks(all: &Path) {
    for name in ["shell", "shop/bin", "opensdn/bin", "peer/bin", "zookeeper/bin", "cassandra/bin", "cassandra/conf"] {
        fs::create_dir_all(all.join(name)).expect("a folder");
    }
    fs::copy(beside("peer"), all.join("peer/bin/peer")).expect("the program");
    let sdn = all.join("opensdn/bin");
    fs::copy(beside("peer"), sdn.join("program")).expect("the program");
    for name in OPENSDN {
        symlink("program", sdn.join(name)).expect("a link");
    }
    // Their programs say themselves when they are Ready.
    for image in ["peer", "opensdn"] {
        fs::write(all.join(image).join(UNREADY), "").expect("a file");
    }
    fs::copy(beside("peer"), all.join("shop/bin/ask")).expect("the program");
    script(all, "shop/bin/zkCli.sh", CLI);
    symlink(jars("zookeeper").unwrap_or_else(|why| panic!("{why}")), all.join("shop/lib")).expect("a link");
    script(all, "zookeeper/bin/zkServer.sh", ZOOKEEPER);
    script(all, "zookeeper/bin/zkCli.sh", CLI);
    script(all, "cassandra/bin/cassandra", CASSANDRA);
    script(all, "cassandra/bin/nodetool", NODETOOL);
    for (name, text) in LOGS.iter().chain([&("java.options", INTERNALS)]) {
        fs::write(all.join("cassandra/conf").join(name), text).expect("a file");
    }
    for name in ["zookeeper", "cassandra"] {
        symlink(jars(name).unwrap_or_else(|why| panic!("{why}")), all.join(name).join("lib")).expect("a link");
    }
    for program in ALL {
        let bin = all.join(program.name).join("bin");
        fs::create_dir_all(&bin).expect("a folder");
        for from in program.programs().unwrap_or_else(|why| panic!("{why}")) {
            symlink(&from, bin.join(from.file_name().expect("a name"))).expect("a link");
        }
        if let Some(libraries) = program.libraries() {
            symlink(libraries, all.join(program.name).join("lib")).expect("a link");
        }
    }
}

fn script(all: &Path, path: &str, text: &str) {
    let path = all.join(path);
    fs::write(&path, text).expect("a program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
}
