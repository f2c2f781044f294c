# outbox.instance counts from the next restart on, perhaps months later, and then makes a server that publishes a silent copy: who sets
# it is warned, and doctor() tells until then.
# matrix: C3
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
$node->safe_psql('postgres', 'CREATE DATABASE unused');
$node->safe_psql('unused', 'CREATE EXTENSION outbox');
$node->safe_psql('postgres', q{CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n')});
sub said { my ($sql, $database) = @_; return ($node->psql($database // 'postgres', $sql))[2] }
my $identity = q{SELECT status FROM outbox.doctor() WHERE "check" = 'identity'};
my $warning = qr/WARNING:  with another outbox\.instance this server's outboxes are copies, and silent, once it is restarted\n.*\nHINT:  .*ALTER SYSTEM RESET outbox\.instance/;

is(said(q{ALTER SYSTEM SET outbox.instance = ''}), '', 'set to what it is: nothing is said');
is(said(q{ALTER SYSTEM SET outbox.instance = 'clone'}, 'unused'), '', 'nor where nothing publishes');
like(said(q{ALTER SYSTEM SET Outbox.Instance = 'clone'}), $warning, 'another value is warned of');
$node->reload;
ok(wait_for_value($node, $identity, 'warning', 60), 'doctor() tells of it');
like($node->safe_psql('postgres', q{SELECT detail FROM outbox.doctor() WHERE "check" = 'identity'}), qr/until the server is restarted/, 'and from when on');
is($node->safe_psql('postgres', 'SELECT outbox.doctor_ok()'), 'f', 'which is not well');
is(said('ALTER SYSTEM RESET outbox.instance'), '', 'it is taken back');
$node->reload;
ok(wait_for_value($node, $identity, 'ok', 60), 'and all is well');

like(said(q{ALTER SYSTEM SET outbox.instance = 'clone'}), $warning, 'set again');
$node->restart;
is($node->safe_psql('postgres', $identity), 'problem', 'after the restart it is a copy');
is(said(q{ALTER SYSTEM SET outbox.instance = 'other'}), '', 'which nobody is warned of any more');
no_server_crashed($node);
done_testing();
