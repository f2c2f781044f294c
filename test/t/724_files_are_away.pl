# The package is removed under a running server, and processes of outbox end: they are started again, for the server has the library
# that they need, and wait for the files; the log is not written full. With the files back all goes on, without a restart.
use strict;
use warnings;

use File::Temp ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = stage_with();
plan skip_all => 'this server loads only what is installed into it' if $conf eq '';
# Short, for PostgreSQL before 17 keeps 95 bytes of it.
my ($stage) = $conf =~ m,^dynamic_library_path = '([^:]+/stage),m;
my $short = File::Temp::tempdir('/tmp/outbox-XXXX', CLEANUP => 1);
symlink $stage, "$short/stage" or die "symlink: $!";
$conf =~ s,\Q$stage\E,$short/stage,g;
my ($library) = $conf =~ /^dynamic_library_path = '([^:]+):/m;
my $redis = Outbox::Redis->start;
my $node = new_node(conf => $conf);
sub sql { return $node->safe_psql('postgres', $_[0]) }
redis_route($node, $redis, 'redis', topic => q('events'));
sql(q{SELECT outbox.emit('order', 1, 'before', '{}')});
ok(wait_idle($node), 'events flow');

rename $library, "$library.away" or die "rename: $!";
my $runs = q{SELECT string_agg(DISTINCT pid::text, ' ') FROM pg_stat_activity WHERE backend_type = 'outbox launcher'};
my $before = sql($runs);
my $at = -s $node->logfile;
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'outbox %'});
ok(wait_until(sub { my $now = sql($runs); $now ne '' && $now ne $before }), 'another launcher runs');
sleep 8;    # in which the log must not be written full
my $lines = () = substr(slurp_file($node->logfile), $at) =~ /could not access file/g;
cmp_ok($lines, '<', 8, 'which the log is not written full of: what has to ask the database waits longer each time');
rename "$library.away", $library or die "rename: $!";
sql(q{SELECT outbox.emit('order', 1, 'after', '{}')});
ok(wait_idle($node), 'with the files back events flow');
no_server_crashed($node);
done_testing();
