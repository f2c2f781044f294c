# What the launcher remembers of a process that crashed at its start goes with the process: when it is not wanted any more,
# and at once where its database is no more. Before, each start of the server wrote such files anew.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $dir = $node->data_dir . '/pg_stat';

sub sql { return $node->safe_psql('postgres', @_) }

# A mark as the launcher writes it, with the file's own inode: $crashes before this one, and whether the process was running.
sub mark
{
	my ($name, $crashes, $state) = @_;
	append_to_file("$dir/outbox_start.$name", '');
	my $inode = (stat "$dir/outbox_start.$name")[1];
	append_to_file("$dir/outbox_start.$name", sprintf("%010d %s %020d\n", $crashes, $state, $inode));
	return;
}
sub marked { my ($name) = @_; return -e "$dir/outbox_start.$name" ? 1 : 0 }

sql('CREATE DATABASE later');
sql('CREATE DATABASE sooner');
my ($later, $sooner) = map { sql("SELECT oid FROM pg_database WHERE datname = '$_'") } qw(later sooner);
$node->stop('immediate');
mark("$later.2.7", 5, 'r');     # a relay worker that crashed: held back, and remembered for a minute longer
mark("$later.2.8", 0, 'w');     # one that an immediate shutdown ended
mark("$sooner.2.7", 5, 'r');
$node->start;
ok(wait_until(sub { slurp_file("$dir/outbox_start.$sooner.2.7") =~ /^0000000006 w / }, 60), 'a process that crashed is remembered');
sql('DROP DATABASE sooner');
ok(wait_until(sub { !marked("$sooner.2.7") }, 60), 'as long as there is its database');
ok(wait_until(sub { !marked("$later.2.8") }, 60), 'one that nobody wants and that did not crash is not');
ok(marked("$later.2.7"), 'one that nobody wants yet and that crashed is');
like(slurp_file("$dir/outbox_start.$later.2.7"), qr/^0000000006 w /, 'with its crashes');

# A database that was dropped while the launcher did not look.
$node->stop('immediate');
mark('4000000000.1.1', 2, 'r');
$node->start;
ok(wait_until(sub { !marked('4000000000.1.1') }, 60), 'a process of a database that is no more is forgotten when the server starts');
no_server_crashed($node);
done_testing();
