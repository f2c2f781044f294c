# COPY into a table of an outbox that is not in use yet goes past foreign keys, as a restore has to. It is nobody's way past the
# triggers of other tables: not with a WHERE clause, whose functions would run so, and not by a role that does not own the table.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $file = PostgreSQL::Test::Utils::tempdir() . '/pauses';
append_to_file($file, "no server\tcopied\tsomebody\n");
my $sees = q{SELECT string_agg(role, ',') FROM seen};
$node->safe_psql('postgres', q{
	CREATE ROLE copier LOGIN; GRANT USAGE ON SCHEMA outbox TO copier; GRANT INSERT ON outbox.pause TO copier;
	CREATE TABLE seen (role text); GRANT ALL ON seen TO PUBLIC;
	CREATE FUNCTION sees() RETURNS boolean LANGUAGE sql VOLATILE AS $$INSERT INTO seen VALUES (current_setting('session_replication_role')); SELECT true$$;
	CREATE FUNCTION sees_row() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM sees(); RETURN new; END$$;
	SET outbox.allow_loss = on; CREATE TRIGGER sees ON_PAUSE_TRIGGER FOR EACH ROW EXECUTE FUNCTION sees_row();
	ALTER TABLE outbox.pause ENABLE ALWAYS TRIGGER sees} =~ s/ON_PAUSE_TRIGGER/BEFORE INSERT ON outbox.pause/r);
sub copied { my ($user, $where) = @_; $node->command_ok([ 'psql', '-Xqd', $node->connstr('postgres'), '-U', $user, '-c', "\\copy outbox.pause (server, reason, paused_by) FROM '$file' $where" ], "$user copies $where"); my $seen = $node->safe_psql('postgres', "SET outbox.allow_loss = on; $sees; TRUNCATE seen; DELETE FROM outbox.pause"); return $seen }
my $me = $node->safe_psql('postgres', 'SELECT current_user');
is(copied($me, ''), 'replica', 'the owner, as a restore does');
is(copied($me, 'WHERE sees()'), 'origin,origin', 'not with functions of his own');
is(copied('copier', ''), 'origin', 'nor another role');
is(copied('copier', 'WHERE sees()'), 'origin,origin', 'however he does it');
no_server_crashed($node);
done_testing();
