# One psql for all looks of a wait. A test that waits looks several times a second, each time by a psql and a server process of its
# own: most of what the tests took of the processors. In keep(), safe_psql() of one query asks a psql that is kept until keep()
# ends. Where that cannot answer (the server has restarted, the query fails) the query goes its usual way, with what that says.
package Outbox::Looks;

use strict;
use warnings;

use IPC::Open3 qw(open3);
use PostgreSQL::Test::Cluster;

our $kept;    # psql by node and database; undef outside of keep()

my $END = 'end of the answer';

# What the code returns.
sub keep
{
	my ($code) = @_;
	return $code->() if $kept;    # a wait in a wait
	local $kept = {};
	my $result = eval { $code->() };
	my $error = $@;
	leave($_) foreach values %$kept;
	die $error if $error ne '';
	return $result;
}

# Waits until it has gone: the next thing a test does may be to count sessions.
sub leave
{
	my ($psql) = @_;
	local ($?, $!);
	close $psql->{$_} foreach qw(to from);
	waitpid $psql->{pid}, 0;
	return;
}

sub begin
{
	my ($node, $database) = @_;
	local %ENV = $node->_get_env();
	open my $nowhere, '>', '/dev/null' or die "/dev/null: $!";
	my $pid = open3(my $to, my $from, '>&' . fileno $nowhere, $node->installed_command('psql'),
		'-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database), '-f', '-');
	return { pid => $pid, to => $to, from => $from };
}

# undef: it cannot tell.
sub answer
{
	my ($psql, $query) = @_;
	local $SIG{PIPE} = 'IGNORE';
	my $said = '';
	return if !defined syswrite $psql->{to}, "$query\n;\n\\echo $END\n";
	until ($said =~ /^\Q$END\E\n\z/m)
	{
		return if !sysread $psql->{from}, $said, 65536, length $said;
	}
	return $said =~ s/\n?\Q$END\E\n\z//r;
}

# Only a single query, which leaves nothing behind in its session.
sub is_query
{
	my ($sql) = @_;
	return $sql =~ /^\s*(?:SELECT|WITH|TABLE|VALUES|SHOW)\b[^;\\]*\z/i;
}

my $safe_psql = \&PostgreSQL::Test::Cluster::safe_psql;
no warnings 'redefine';
*PostgreSQL::Test::Cluster::safe_psql = sub
{
	my ($node, $database, $sql, %parameters) = @_;
	if ($kept && !%parameters && is_query($sql))
	{
		my $psql = $kept->{ $node->name . " $database" } //= begin($node, $database);
		my $said = answer($psql, $sql);
		return $said if defined $said;
		leave(delete $kept->{ $node->name . " $database" });
	}
	return $safe_psql->($node, $database, $sql, %parameters);
};

1;
