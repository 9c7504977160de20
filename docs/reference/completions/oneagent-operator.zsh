#compdef oneagent-operator

autoload -U is-at-least

_oneagent-operator() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_oneagent-operator_commands" \
"*::: :->oneagent-operator" \
&& ret=0
    case $state in
    (oneagent-operator)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:oneagent-operator-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
'--kind=[Kind of objects to reconcile. Each kind has a package of its own, with only the rights that it needs]:KIND:((oneagent\:"OneAgents, in package oneagent-operator"
configwatcher\:"ConfigWatchers, in package configwatcher-operator"
jmxexporter\:"PrometheusJmxExporters, in package jmx-exporter-operator"
manager\:"Managers, in package tf-operator"
daemonsetrollout\:"DaemonSetRollouts, in package daemonset-rollout-operator"))' \
'--watch-namespace=[Namespaces to watch, separated by commas. Empty\: all. With OLM it is annotation olm.targetNamespaces]:WATCH_NAMESPACE:_default' \
'--pod-namespace=[Namespace of the operator itself\: its Lease and its stop ConfigMap are there. Default\: the package'\''s, such as dynatrace]:POD_NAMESPACE:_default' \
'--pod-name=[Name of the operator'\''s Pod. Together with its UID it is the identity in the Lease. Default\: the package'\''s name]:POD_NAME:_default' \
'--pod-uid=[UID of the operator'\''s Pod]:POD_UID:_default' \
'--operator-condition-name=[Name of OLM'\''s OperatorCondition. OLM v0 sets it. Empty\: there is none]:OPERATOR_CONDITION_NAME:_default' \
'--listen-address=[Address that serves probes (/livez, /readyz) and metrics (/metrics)]:LISTEN_ADDRESS:_default' \
'--secure-metrics-certificates=[Folder with tls.crt and tls.key. With it metrics are served over TLS only, to clients that may get /metrics, and not at --listen-address]:FOLDER:_files' \
'--secure-metrics-address=[Address that serves metrics over TLS]:SECURE_METRICS_ADDRESS:_default' \
'--lease-duration=[How long a lease that is not renewed stays valid]:LEASE_DURATION:_default' \
'--lease-renew-deadline=[For how long the leader tries to renew the lease before it exits]:LEASE_RENEW_DEADLINE:_default' \
'--lease-retry-period=[How often the lease is renewed]:LEASE_RETRY_PERIOD:_default' \
'--log-level=[error, warn, info, debug or trace, or a list such as info,kube=debug]:LOG_LEVEL:_default' \
'--log-format=[How a log line looks]:LOG_FORMAT:((text\:"For people"
json\:"For machines"))' \
'--poll-interval=[How often an environment is asked for its newest version, such as 15m, 90s or 500ms]:POLL_INTERVAL:_default' \
'--slow-poll-interval=[How often tokens are checked, and whether versions are still offered]:SLOW_POLL_INTERVAL:_default' \
'--hosts-poll-interval=[How often the environment'\''s host list is read while the operator needs it]:HOSTS_POLL_INTERVAL:_default' \
'--discovery-interval=[For how long facts about the cluster are cached\: the state of Istio and its objects for enableIstio, and the node selectors of namespaces. Also OpenShift'\''s proxy, update and default node selector]:DISCOVERY_INTERVAL:_default' \
'--vendor-timeout=[Longest time for one call to an environment]:VENDOR_TIMEOUT:_default' \
'--related-image-dynatrace-oneagent=[Image of the agent'\''s installer where a OneAgent names none]:RELATED_IMAGE_DYNATRACE_ONEAGENT:_default' \
'--operator-image=[With --kind jmxexporter\: the operator'\''s own image, for the containers that join Pods. OLM and the manifests set it]:OPERATOR_IMAGE:_default' \
'--table=[With --kind manager\: file with the table of a stack'\''s components. Default\: the one in the program]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
'-n+[Namespace of that OneAgent]:NAMESPACE:_default' \
'--namespace=[Namespace of that OneAgent]:NAMESPACE:_default' \
'-f+[File with a OneAgent, or - for standard input. Needs no cluster]:FILE:_files' \
'--file=[File with a OneAgent, or - for standard input. Needs no cluster]:FILE:_files' \
'--api-url=[Address of an environment, without a OneAgent. Needs no cluster]:URL:_default' \
'()--trusted-cas=[File with PEM certificates, in place of the ConfigMap in spec.trustedCAs. Not for a OneAgent in the cluster]:FILE:_files' \
'-h[Print help]' \
'--help[Print help]' \
'::name -- Name of a OneAgent in the cluster. The objects that it refers to are read from there, with your rights:_default' \
&& ret=0
;;
(explain)
_arguments "${_arguments_options[@]}" : \
'--kind=[Kind of the object. Default\: oneagent with a name, both kinds without one]:KIND:((oneagent\:"Agents of Dynatrace"
daemonsetrollout\:"Any DaemonSet"))' \
'-n+[Namespace of the objects. Default\: dynatrace with the name of a OneAgent, otherwise all namespaces]:NAMESPACE:_default' \
'--namespace=[Namespace of the objects. Default\: dynatrace with the name of a OneAgent, otherwise all namespaces]:NAMESPACE:_default' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::what -- Word `node` and the name of a node, or the name of an object:_default' \
&& ret=0
;;
(plan)
_arguments "${_arguments_options[@]}" : \
'-n+[Namespace of the objects, where a file names none. Default\: dynatrace for OneAgents, all namespaces for other kinds]:NAMESPACE:_default' \
'--namespace=[Namespace of the objects, where a file names none. Default\: dynatrace for OneAgents, all namespaces for other kinds]:NAMESPACE:_default' \
'-f+[File with the edited objects, or with the DaemonSet of a DaemonSetRollout. - is standard input]:FILE:_files' \
'--file=[File with the edited objects, or with the DaemonSet of a DaemonSetRollout. - is standard input]:FILE:_files' \
'--kind=[Kind of the object]:KIND:((oneagent\:"Agents of Dynatrace"
daemonsetrollout\:"Any DaemonSet"))' \
'--at=[Plan as of this time, such as 2026-12-20T02\:00\:00Z, or 2026-12-20 for its midnight in UTC. Default\: now]:TIME:_default' \
'-o+[Format of the output]:OUTPUT:((text\:"For people"
json\:"A list with one entry per object"))' \
'--output=[Format of the output]:OUTPUT:((text\:"For people"
json\:"A list with one entry per object"))' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::name -- Name of an object. Default\: the objects of the file, or without a file all of the namespace:_default' \
&& ret=0
;;
(table)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'::file -- File with the table. Default\: the one in the program:_files' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_oneagent-operator__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:oneagent-operator-help-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(explain)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(plan)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(table)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
}

(( $+functions[_oneagent-operator_commands] )) ||
_oneagent-operator_commands() {
    local commands; commands=(
'run:Run the operator\: watch and reconcile the objects of one kind. The Deployment starts it' \
'check:Try an environment as the operator would, and say what to fix. Changes nothing' \
'explain:Say why a node has no Pod, has an old one, or waits, or what an object waits for. Changes nothing' \
'plan:Say which Pods an edit would replace, when, in which order, and what holds it. Changes nothing' \
'table:Check the table of a stack, and say what it says. Needs no cluster' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'oneagent-operator commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__check_commands] )) ||
_oneagent-operator__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator check commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__explain_commands] )) ||
_oneagent-operator__subcmd__explain_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator explain commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__help_commands] )) ||
_oneagent-operator__subcmd__help_commands() {
    local commands; commands=(
'run:Run the operator\: watch and reconcile the objects of one kind. The Deployment starts it' \
'check:Try an environment as the operator would, and say what to fix. Changes nothing' \
'explain:Say why a node has no Pod, has an old one, or waits, or what an object waits for. Changes nothing' \
'plan:Say which Pods an edit would replace, when, in which order, and what holds it. Changes nothing' \
'table:Check the table of a stack, and say what it says. Needs no cluster' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'oneagent-operator help commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__help__subcmd__check_commands] )) ||
_oneagent-operator__subcmd__help__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator help check commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__help__subcmd__explain_commands] )) ||
_oneagent-operator__subcmd__help__subcmd__explain_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator help explain commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__help__subcmd__help_commands] )) ||
_oneagent-operator__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator help help commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__help__subcmd__plan_commands] )) ||
_oneagent-operator__subcmd__help__subcmd__plan_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator help plan commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__help__subcmd__run_commands] )) ||
_oneagent-operator__subcmd__help__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator help run commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__help__subcmd__table_commands] )) ||
_oneagent-operator__subcmd__help__subcmd__table_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator help table commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__plan_commands] )) ||
_oneagent-operator__subcmd__plan_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator plan commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__run_commands] )) ||
_oneagent-operator__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator run commands' commands "$@"
}
(( $+functions[_oneagent-operator__subcmd__table_commands] )) ||
_oneagent-operator__subcmd__table_commands() {
    local commands; commands=()
    _describe -t commands 'oneagent-operator table commands' commands "$@"
}

if [ "$funcstack[1]" = "_oneagent-operator" ]; then
    _oneagent-operator "$@"
else
    compdef _oneagent-operator oneagent-operator
fi
