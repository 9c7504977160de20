# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_oneagent_operator_global_optspecs
    string join \n h/help V/version
end

function __fish_oneagent_operator_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_oneagent_operator_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_oneagent_operator_using_subcommand
    set -l cmd (__fish_oneagent_operator_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c oneagent-operator -n "__fish_oneagent_operator_needs_command" -s h -l help -d 'Print help'
complete -c oneagent-operator -n "__fish_oneagent_operator_needs_command" -s V -l version -d 'Print version'
complete -c oneagent-operator -n "__fish_oneagent_operator_needs_command" -f -a "run" -d 'Run the operator: watch and reconcile the objects of one kind. The Deployment starts it'
complete -c oneagent-operator -n "__fish_oneagent_operator_needs_command" -f -a "check" -d 'Try an environment as the operator would, and say what to fix. Changes nothing'
complete -c oneagent-operator -n "__fish_oneagent_operator_needs_command" -f -a "explain" -d 'Say why a node has no Pod, has an old one, or waits, or what an object waits for. Changes nothing'
complete -c oneagent-operator -n "__fish_oneagent_operator_needs_command" -f -a "plan" -d 'Say which Pods an edit would replace, when, in which order, and what holds it. Changes nothing'
complete -c oneagent-operator -n "__fish_oneagent_operator_needs_command" -f -a "table" -d 'Check the table of a stack, and say what it says. Needs no cluster'
complete -c oneagent-operator -n "__fish_oneagent_operator_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l kind -d 'Kind of objects to reconcile. Each kind has a package of its own, with only the rights that it needs' -r -f -a "oneagent\t'OneAgents, in package oneagent-operator'
configwatcher\t'ConfigWatchers, in package configwatcher-operator'
jmxexporter\t'PrometheusJmxExporters, in package jmx-exporter-operator'
manager\t'Managers, in package tf-operator'
daemonsetrollout\t'DaemonSetRollouts, in package daemonset-rollout-operator'"
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l watch-namespace -d 'Namespaces to watch, separated by commas. Empty: all. With OLM it is annotation olm.targetNamespaces' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l pod-namespace -d 'Namespace of the operator itself: its Lease and its stop ConfigMap are there. Default: the package\'s, such as dynatrace' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l pod-name -d 'Name of the operator\'s Pod. Together with its UID it is the identity in the Lease. Default: the package\'s name' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l pod-uid -d 'UID of the operator\'s Pod' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l operator-condition-name -d 'Name of OLM\'s OperatorCondition. OLM v0 sets it. Empty: there is none' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l listen-address -d 'Address that serves probes (/livez, /readyz) and metrics (/metrics)' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l secure-metrics-certificates -d 'Folder with tls.crt and tls.key. With it metrics are served over TLS only, to clients that may get /metrics, and not at --listen-address' -r -F
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l secure-metrics-address -d 'Address that serves metrics over TLS' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l lease-duration -d 'How long a lease that is not renewed stays valid' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l lease-renew-deadline -d 'For how long the leader tries to renew the lease before it exits' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l lease-retry-period -d 'How often the lease is renewed' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l log-level -d 'error, warn, info, debug or trace, or a list such as info,kube=debug' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l log-format -d 'How a log line looks' -r -f -a "text\t'For people'
json\t'For machines'"
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l poll-interval -d 'How often an environment is asked for its newest version, such as 15m, 90s or 500ms' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l slow-poll-interval -d 'How often tokens are checked, and whether versions are still offered' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l hosts-poll-interval -d 'How often the environment\'s host list is read while the operator needs it' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l discovery-interval -d 'For how long facts about the cluster are cached: the state of Istio and its objects for enableIstio, and the node selectors of namespaces. Also OpenShift\'s proxy, update and default node selector' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l vendor-timeout -d 'Longest time for one call to an environment' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l related-image-dynatrace-oneagent -d 'Image of the agent\'s installer where a OneAgent names none' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l operator-image -d 'With --kind jmxexporter: the operator\'s own image, for the containers that join Pods. OLM and the manifests set it' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -l table -d 'With --kind manager: file with the table of a stack\'s components. Default: the one in the program' -r -F
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand check" -s n -l namespace -d 'Namespace of that OneAgent' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand check" -s f -l file -d 'File with a OneAgent, or - for standard input. Needs no cluster' -r -F
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand check" -l api-url -d 'Address of an environment, without a OneAgent. Needs no cluster' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand check" -l trusted-cas -d 'File with PEM certificates, in place of the ConfigMap in spec.trustedCAs. Not for a OneAgent in the cluster' -r -F
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand check" -s h -l help -d 'Print help'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand explain" -l kind -d 'Kind of the object. Default: oneagent with a name, both kinds without one' -r -f -a "oneagent\t'Agents of Dynatrace'
daemonsetrollout\t'Any DaemonSet'"
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand explain" -s n -l namespace -d 'Namespace of the objects. Default: dynatrace with the name of a OneAgent, otherwise all namespaces' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand plan" -s n -l namespace -d 'Namespace of the objects, where a file names none. Default: dynatrace for OneAgents, all namespaces for other kinds' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand plan" -s f -l file -d 'File with the edited objects, or with the DaemonSet of a DaemonSetRollout. - is standard input' -r -F
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand plan" -l kind -d 'Kind of the object' -r -f -a "oneagent\t'Agents of Dynatrace'
daemonsetrollout\t'Any DaemonSet'"
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand plan" -l at -d 'Plan as of this time, such as 2026-12-20T02:00:00Z, or 2026-12-20 for its midnight in UTC. Default: now' -r
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand plan" -s o -l output -d 'Format of the output' -r -f -a "text\t'For people'
json\t'A list with one entry per object'"
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand table" -s h -l help -d 'Print help'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand help; and not __fish_seen_subcommand_from run check explain plan table help" -f -a "run" -d 'Run the operator: watch and reconcile the objects of one kind. The Deployment starts it'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand help; and not __fish_seen_subcommand_from run check explain plan table help" -f -a "check" -d 'Try an environment as the operator would, and say what to fix. Changes nothing'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand help; and not __fish_seen_subcommand_from run check explain plan table help" -f -a "explain" -d 'Say why a node has no Pod, has an old one, or waits, or what an object waits for. Changes nothing'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand help; and not __fish_seen_subcommand_from run check explain plan table help" -f -a "plan" -d 'Say which Pods an edit would replace, when, in which order, and what holds it. Changes nothing'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand help; and not __fish_seen_subcommand_from run check explain plan table help" -f -a "table" -d 'Check the table of a stack, and say what it says. Needs no cluster'
complete -c oneagent-operator -n "__fish_oneagent_operator_using_subcommand help; and not __fish_seen_subcommand_from run check explain plan table help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
