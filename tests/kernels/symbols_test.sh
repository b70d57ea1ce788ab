#!/bin/sh
# symbols_test.sh NM OBJECTS...: of the objects isa_*, each may define one visible symbol, its table, and run no code at
# start-up. Any other (an inline function of the standard library, say) could be linked into code for every CPU.
set -eu
nm=$1
shift
checked=0
for object in "$@"; do
  case $object in */isa_*) ;; *) continue ;; esac
  checked=$((checked + 1))
  symbols=$("$nm" --demangle "$object")
  visible=$(echo "$symbols" | grep -E '^[0-9a-f]+ [A-TV-Zuvw] ' | grep -v 'tutti::kernels::k[A-Za-z0-9]*Kernels$' || true)
  startup=$(echo "$symbols" | grep -E '_GLOBAL__sub_I|__static_initialization' || true)
  tables=$(echo "$symbols" | grep -c ' [BDR] tutti::kernels::k[A-Za-z0-9]*Kernels$' || true)
  if [ -n "$visible$startup" ] || [ "$tables" != 1 ]; then
    echo "$object must define its table and nothing else; it has $tables tables and:"
    echo "$visible$startup"
    exit 1
  fi
done
if [ "$checked" -lt 2 ]; then
  echo "found only $checked objects named isa_*"
  exit 1
fi
echo "$checked objects define only their tables"
