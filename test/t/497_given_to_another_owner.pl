# A schema or a table of the extension is given to another role than its owner: doctor() names it, with what to type, which mends it;
# also where functions and workers cannot go on with that, and the owner is no superuser any more.
# matrix: G11
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql('CREATE ROLE app; CREATE ROLE first SUPERUSER; CREATE ROLE another; GRANT pg_monitor TO app');
sql(q(SET ROLE first; CREATE EXTENSION outbox; CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n'); SELECT outbox.grant_emit('app')));
my $owners = q(SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'owners');
sub emits { my ($what) = @_; sql(q(SET ROLE app; SELECT outbox.emit('o', 'k', 'e', '{}'::jsonb))); return ok(wait_idle($node), $what) }
emits('all is well');
foreach my $superuser (1, 0)
{
	sql('ALTER ROLE first NOSUPERUSER') if !$superuser;
	my $of = $superuser ? 'of a superuser' : 'of another role';
	foreach my $what ('SCHEMA outbox', 'SCHEMA outbox_internal', 'TABLE outbox_internal.log', 'TABLE outbox.route', 'TABLE outbox_internal.identity', 'TABLE outbox_internal.parked')
	{
		sql("ALTER $what OWNER TO another");
		my ($name) = $what =~ / (.*)/;
		foreach my $role (qw(postgres app))
		{
			my ($status, $detail, $hint) = split /\|/, sql("SET ROLE $role; $owners");
			like($detail, qr/(?:^|Schema )\Q$name\E belongs to another, and the extension to first: /, "$what $of: $role is told");
			is($hint, "ALTER $what OWNER TO first;", 'with what to type');
			my $fails = $what =~ /log|route|identity/ || !$superuser;
			is($status, $fails ? 'problem' : 'warning', 'and how bad it is');
		}
		sql("ALTER $what OWNER TO first");
		is(sql($owners), 'ok|All objects of the extension have one owner.|', 'that mends it');
	}
}
emits('and all is well again');
no_server_crashed($node);
done_testing();
