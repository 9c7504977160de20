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
'--kind=[Which kind to keep\: each is a package of its own, with just its rights]:KIND:((oneagent\:"OneAgents, in package oneagent-operator"
configwatcher\:"ConfigWatchers, in package configwatcher-operator"
jmxexporter\:"PrometheusJmxExporters, in package jmx-exporter-operator"
manager\:"Managers, in package tf-operator"
daemonsetrollout\:"DaemonSetRollouts, in package daemonset-rollout-operator"))' \
'--watch-namespace=[Namespaces to watch, separated by commas; empty means all. OLM'\''s olm.targetNamespaces goes here]:WATCH_NAMESPACE:_default' \
'--pod-namespace=[Namespace of the operator itself\: its Lease and its stop ConfigMap are there. Default\: the package'\''s, such as dynatrace]:POD_NAMESPACE:_default' \
'--pod-name=[Name of the operator'\''s Pod; with its UID the identity in the Lease. Default\: the package'\''s name]:POD_NAME:_default' \
'--pod-uid=[UID of the operator'\''s Pod]:POD_UID:_default' \
'--operator-condition-name=[Name of OLM'\''s OperatorCondition; set by OLM v0. Empty\: there is none]:OPERATOR_CONDITION_NAME:_default' \
'--listen-address=[Where probes (/livez, /readyz) and metrics (/metrics) are served]:LISTEN_ADDRESS:_default' \
'--secure-metrics-certificates=[Folder with tls.crt and tls.key\: metrics are then served over TLS only, to those who may get /metrics, and not at --listen-address]:FOLDER:_files' \
'--secure-metrics-address=[Where metrics are served over TLS]:SECURE_METRICS_ADDRESS:_default' \
'--lease-duration=[How long a lease that is not renewed stays valid]:LEASE_DURATION:_default' \
'--lease-renew-deadline=[For how long the leader tries to renew before it ends itself]:LEASE_RENEW_DEADLINE:_default' \
'--lease-retry-period=[How often the lease is renewed]:LEASE_RETRY_PERIOD:_default' \
'--log-level=[error, warn, info, debug or trace; or a list such as info,kube=debug]:LOG_LEVEL:_default' \
'--log-format=[How a log line looks]:LOG_FORMAT:((text\:"For people"
json\:"For machines"))' \
'--poll-interval=[How often an environment is asked for its newest version, such as 15m, 90s or 500ms]:POLL_INTERVAL:_default' \
'--slow-poll-interval=[How often tokens, and whether versions are still offered, are looked at]:SLOW_POLL_INTERVAL:_default' \
'--hosts-poll-interval=[How often the host list is asked for while something needs it]:HOSTS_POLL_INTERVAL:_default' \
'--discovery-interval=[For how long it is believed what the cluster says of itself\: whether Istio is there and its objects are as they should be, where enableIstio asks for it; the node selectors of namespaces; OpenShift'\''s proxy, update and default node selector]:DISCOVERY_INTERVAL:_default' \
'--vendor-timeout=[Longest time for one call to an environment]:VENDOR_TIMEOUT:_default' \
'--related-image-dynatrace-oneagent=[Image of the agent'\''s installer where a OneAgent names none]:RELATED_IMAGE_DYNATRACE_ONEAGENT:_default' \
'--operator-image=[With --kind jmxexporter\: the operator'\''s own image, which the containers run that join Pods. Set by OLM and the manifests]:OPERATOR_IMAGE:_default' \
'--table=[With --kind manager\: file with the table that says what a stack consists of. Default\: the one in the program]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
'-n+[Namespace of that OneAgent]:NAMESPACE:_default' \
'--namespace=[Namespace of that OneAgent]:NAMESPACE:_default' \
'-f+[A OneAgent in a file, or in standard input (-); no cluster is needed]:FILE:_files' \
'--file=[A OneAgent in a file, or in standard input (-); no cluster is needed]:FILE:_files' \
'--api-url=[An environment'\''s address alone; no cluster is needed]:URL:_default' \
'()--trusted-cas=[File with PEM certificates, in the place of the ConfigMap in spec.trustedCAs; not with a OneAgent in the cluster]:FILE:_files' \
'-h[Print help]' \
'--help[Print help]' \
'::name -- Name of a OneAgent in the cluster\: what it refers to is read from there, with your rights:_default' \
&& ret=0
;;
(explain)
_arguments "${_arguments_options[@]}" : \
'--kind=[Kind of the object. Default\: with a name oneagent, else both]:KIND:((oneagent\:"Agents of Dynatrace"
daemonsetrollout\:"Any DaemonSet"))' \
'-n+[Namespace of the objects. Default\: with the name of a OneAgent dynatrace, else all namespaces]:NAMESPACE:_default' \
'--namespace=[Namespace of the objects. Default\: with the name of a OneAgent dynatrace, else all namespaces]:NAMESPACE:_default' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::what -- Word `node` and the name of a node; or the name of an object:_default' \
&& ret=0
;;
(plan)
_arguments "${_arguments_options[@]}" : \
'-n+[Namespace of the objects, where a file names none. Default\: dynatrace for OneAgents, else all namespaces]:NAMESPACE:_default' \
'--namespace=[Namespace of the objects, where a file names none. Default\: dynatrace for OneAgents, else all namespaces]:NAMESPACE:_default' \
'-f+[File with objects as they shall be, or with the DaemonSet of a DaemonSetRollout; - is standard input]:FILE:_files' \
'--file=[File with objects as they shall be, or with the DaemonSet of a DaemonSetRollout; - is standard input]:FILE:_files' \
'--kind=[Kind of the object]:KIND:((oneagent\:"Agents of Dynatrace"
daemonsetrollout\:"Any DaemonSet"))' \
'--at=[As if it were this time, such as 2026-12-20T02\:00\:00Z. Default\: now]:TIME:_default' \
'-o+[How to say it]:OUTPUT:((text\:"For people"
json\:"A list with one entry per object"))' \
'--output=[How to say it]:OUTPUT:((text\:"For people"
json\:"A list with one entry per object"))' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::name -- Name of an object. Default\: those of the file, else all of the namespace:_default' \
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
'explain:Say why a node has no Pod, an old one, or waits; or what an object waits for. Changes nothing' \
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
'explain:Say why a node has no Pod, an old one, or waits; or what an object waits for. Changes nothing' \
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
