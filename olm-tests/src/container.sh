# What a container's process sees: its own processes, /tmp and /dev, its volumes, and the files of its image in /dev/image.
# Usage: container.sh ROOT IMAGE MESSAGE USER GROUP ACCESS MOUNTS PROGRAM [ARGUMENT…]; MESSAGE: a file for its last words;
# ACCESS: ro or rw, of the container's own files; MOUNTS: words of FOLDER:PATH. Where this machine has no folder PATH, the
# nearest one above it is another, empty one here.
set -e
root=$1 image=$2 message=$3 user=$4 group=$5 access=$6 mounts=$7
shift 7
mount --make-rprivate /
mkdir -p "$root/dev" "$root/tmp"
chmod 1777 "$root/tmp"
tmp=$root/tmp
# What is mounted onto /tmp hides all the rest of it, so it comes last.
covered=
for one in $mounts; do
    path=${one#*:}
    if [ ! -d "$path" ]; then
        above=$path
        while [ ! -d "$above" ]; do above=${above%/*}; done
        case " $covered " in
        *" $above "*) ;;
        *) mount -t tmpfs -o mode=755 tmpfs "$above" && covered="$covered $above" ;;
        esac
        mkdir -p "$path"
    fi
    if [ "${one#*:}" = /tmp ]; then tmp=${one%%:*} access=rw; else mount --bind "${one%%:*}" "$path"; fi
done
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for one in null zero random urandom; do
    : >"$root/dev/$one"
    mount --bind "/dev/$one" "$root/dev/$one"
done
: >"$root/dev/termination-log"
mount --bind "$message" "$root/dev/termination-log"
mkdir "$root/dev/image"
mount --bind "$image" "$root/dev/image"
# Where containers share their processes, a process's cgroup names its container. Here the process itself does.
if [ -n "$RIG_SHARED" ]; then
    for one in /proc/[0-9]*; do
        id=$(tr '\0' '\n' 2>/dev/null <"$one/environ" | sed -n 's/^RIG_CONTAINER=//p')
        if [ -z "$id" ]; then continue; fi
        echo "0::/pod/cri-containerd-$id.scope" >"$root/cgroup-${one#/proc/}"
        mount --bind "$root/cgroup-${one#/proc/}" "$one/cgroup" 2>/dev/null || :
    done
fi
mount --move "$root/dev" /dev
mount --bind "$tmp" /tmp
if [ "$access" = ro ]; then mount -o remount,bind,ro /tmp; fi
cd /
if [ "$user" = 0 ]; then exec "$@"; fi
exec setpriv --reuid "$user" --regid "$group" --clear-groups -- "$@"
