# The server runs under a filter of system calls that kills who calls what the sink's program confines itself with: the log, doctor()
# and test_server() say so, and not that its libraries may be missing.
# matrix: R26
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/filter.c", <<'C');
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **arguments) {
  // capset, seccomp, and the three of landlock, which have these numbers everywhere.
  unsigned answer = count > 1 && arguments[1][0] == 'k' ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
  struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 3, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 2, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 447, 2, 0), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 444, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, answer), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
  if (count < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 77;
  execv(arguments[2], arguments + 2);
  return 1;
}
C
plan skip_all => 'no filter can be made here' if system('cc', '-o', "$dir/filter", "$dir/filter.c") != 0 || system("$dir/filter", 'kill', '/bin/true') != 0;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'here', topic => q('t'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
$node->stop;
chomp(my $bin = `pg_config --bindir`);
sub start_under
{
	my ($how) = @_;
	is(system("$dir/filter", $how, "$bin/pg_ctl", '-w', '-D', $node->data_dir, '-l', $node->logfile, 'start'), 0, "a server under the filter: $how") or BAIL_OUT('no server');
	$node->_update_pid(1);
	return;
}
start_under('kill');
sql(q(SELECT outbox.emit('t', 'k', 'e', '1')));
my $filter = qr/ended by signal \d+ \(.*\): a seccomp filter/;
my $cure = qr/The filter of system calls that the server runs under.*capset/;
like(sql(q(SELECT detail FROM outbox.test_server('here', 't', '30 s') WHERE NOT ok)), $filter, 'test_server() says it');
ok($node->wait_for_log(qr/WARNING: .*$filter.*HINT:  $cure/s), 'the log says it, and what to do');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'destination' AND detail ~ 'seccomp filter' AND hint ~ '^The filter of system calls'), '1', 60), 'and doctor()')
  or diag(sql(q(SELECT "check", detail, hint FROM outbox.doctor() WHERE status <> 'ok')));
$node->stop;
start_under('error');
ok(wait_until(sub { $redis->xlen('t') == 1 }), 'where the filter answers with an error it is delivered');
no_server_crashed($node);
done_testing();
