# The pages of the reference that a server can tell: docs/functions.md, docs/views.md, docs/settings.md, from the catalogs of a
# database with the extension and the library preloaded. scripts/reference writes them, test/t/250_reference.pl compares.
package Outbox::Reference;

use strict;
use warnings;

use JSON::PP ();

# What JSON makes of an object of the extension, to all of which the queries below add their own conditions.
my $MEMBER = q{(SELECT d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid WHERE d.refclassid = 'pg_extension'::regclass
	AND d.deptype = 'e' AND e.extname = 'outbox' AND d.classid = '%s'::regclass)};

sub cell { my ($text) = @_; $text =~ s/\s+/ /g; $text =~ s/([|*_\[\]])/\\$1/g; $text =~ s/</&lt;/g; return $text }

# pages($ask): { file => text }; $ask->(query) returns the query's single value.
sub pages
{
	my ($ask) = @_;
	my $rows = sub
	{
		my ($query) = @_;
		my $value = $ask->("SELECT coalesce(jsonb_agg(to_jsonb(q)), '[]') FROM ($query) q");
		utf8::encode($value) if utf8::is_utf8($value);
		return JSON::PP->new->utf8->decode($value);
	};
	my %pages = ('docs/functions.md' => functions($rows), 'docs/views.md' => views($rows), 'docs/settings.md' => settings($rows));
	utf8::encode($_) foreach values %pages;
	return \%pages;
}

# --- functions and procedures, by who may call them ---
my @WHO = (
	[ emit => 'Who may emit', "Roles that `grant_emit()` let emit, and the extension's owner." ],
	[ monitor => 'Who may look', 'Members of `pg_monitor`, operators, and the owner.' ],
	[ operate => 'Operators', 'Roles of `grant_operate()`, and the owner.' ],
	[ owner => "The extension's owner", 'And superusers, and whom they grant `EXECUTE`.' ],
	[ other => 'Everybody who may use the schema', 'Nothing of this needs a grant of its own.' ]);

sub functions
{
	my ($rows) = @_;
	my $functions = $rows->(sprintf q{
		SELECT p.proname AS name, p.prokind = 'p' AS procedure, p.prorettype = 'trigger'::regtype AS is_trigger,
			pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result, obj_description(p.oid, 'pg_proc') AS comment,
			CASE WHEN EXISTS (SELECT FROM outbox_internal.emit_routines() r WHERE r = p.oid) THEN 'emit'
				WHEN EXISTS (SELECT FROM aclexplode(p.proacl) x WHERE x.grantee = 'pg_monitor'::regrole) THEN 'monitor'
				WHEN EXISTS (SELECT FROM outbox_internal.operate_grants() g WHERE g = format('EXECUTE ON ROUTINE %%s', p.oid::regprocedure)) THEN 'operate'
				WHEN EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x WHERE x.grantee = 0) THEN 'other'
				ELSE 'owner' END AS who
		FROM pg_proc p WHERE p.oid IN %s AND p.pronamespace = 'outbox'::regnamespace
		ORDER BY p.proname COLLATE "C", p.pronargs, pg_get_function_identity_arguments(p.oid) COLLATE "C"}, sprintf $MEMBER, 'pg_proc');
	my $text = <<'END';
# Functions

Written by `scripts/reference` from the `COMMENT`s of an installed extension: edit those, in `schema/`. By who may call them; [Grant
rights](privileges.md) says how to grant it. What they refuse, and with which SQLSTATE: [Errors](errors.md). What is called `CALL` is a
procedure and commits as it goes. Functions whose names begin with `_` are the extension's own.
END
	foreach my $who (@WHO)
	{
		my @of = grep { $_->{who} eq $who->[0] } @$functions or next;
		$text .= "\n## $who->[1]\n\n$who->[2]\n";
		my $last = '';
		my @comments;
		my $end = sub { $text .= "```\n\n" . join("\n\n", @comments) . "\n" if $last ne ''; @comments = () };
		foreach my $f (@of)
		{
			if ($f->{name} ne $last) { $end->(); $text .= "\n### $f->{name}\n\n```\n"; $last = $f->{name} }
			my $arguments = plain($f->{arguments});
			$arguments = "\n  " . join(",\n  ", split /, (?=\w+ ["\w])/, $arguments) if length $arguments > 90;
			$text .= ($f->{procedure} ? 'CALL ' : '') . "outbox.$f->{name}($arguments)"
			  . ($f->{procedure} ? '' : $f->{is_trigger} ? ': a trigger function' : ' returns ' . table(plain($f->{result}))) . "\n";
			my $comment = ucfirst_of(cell($f->{comment} // ''));
			push @comments, $comment if !grep { $_ eq $comment } @comments;
		}
		$end->();
	}
	return $text;
}

# Types by the names that people write, and no casts of defaults.
sub plain
{
	my ($text) = @_;
	$text =~ s/(DEFAULT (?:NULL|'[^']*'))::[\w. ]+(?:\[\])?/$1/g;
	$text =~ s/timestamp with time zone/timestamptz/g;
	$text =~ s/character varying/varchar/g;
	return $text;
}

sub ucfirst_of { my ($text) = @_; return $text =~ /^[a-z]+ / ? ucfirst $text : $text }

sub table
{
	my ($result) = @_;
	$result =~ s/^TABLE\((.*)\)$/"TABLE (\n  " . join(",\n  ", split m{, (?=\w|")}, $1) . ')'/e if length $result > 60;
	return $result;
}

# --- views, and tables that people read ---
sub views
{
	my ($rows) = @_;
	my $relations = $rows->(sprintf q{
		SELECT c.relname AS name, c.relkind IN ('v', 'm') AS is_view, obj_description(c.oid, 'pg_class') AS comment,
			EXISTS (SELECT FROM aclexplode(c.relacl) x WHERE x.grantee = 'pg_monitor'::regrole) AS monitor,
			(SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'comment', col_description(c.oid, a.attnum),
				'monitor', EXISTS (SELECT FROM aclexplode(a.attacl) x WHERE x.grantee = 'pg_monitor'::regrole)) ORDER BY a.attnum)
				FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
		FROM pg_class c WHERE c.oid IN %s AND c.relkind IN ('r', 'p', 'v', 'm') AND c.relnamespace = 'outbox'::regnamespace
		ORDER BY c.relname COLLATE "C"}, sprintf $MEMBER, 'pg_class');
	my $some = sub { my ($r) = @_; return scalar grep { $_->{monitor} } @{ $r->{columns} } };
	my $text = <<'END';
# Views

Written by `scripts/reference` from the `COMMENT`s of an installed extension: edit those, in `schema/`. All are in schema `outbox`.
What they show is changed through functions; what is not on this page is the extension's own.
END
	my $section = sub
	{
		my ($r) = @_;
		$text .= "\n### $r->{name}\n\n" . ucfirst_of(cell($r->{comment} // '')) . ".\n\n"
		  . ($r->{name} eq 'event' ? 'For roles that may emit.' : $r->{monitor} ? 'Members of `pg_monitor` and operators may read it.'
		  : $some->($r) ? 'Members of `pg_monitor` and operators may read the columns marked +.' : "The extension's owner may read it.") . "\n\n| column | type | |\n|---|---|---|\n";
		foreach my $c (@{ $r->{columns} })
		{
			$text .= "| `$c->{name}`" . (!$r->{monitor} && $c->{monitor} ? ' +' : '') . " | $c->{type} | " . cell($c->{comment} // '') . " |\n";
		}
	};
	$text .= "\n## To look at\n";
	$section->($_) foreach @$relations;
	$text =~ s/\.\.\n/.\n/g;
	return $text;
}

# --- settings ---
my %CHANGE = (sighup => 'reload', superuser => 'superuser', user => 'session', postmaster => 'restart');
my %UNITS = (B => [ [ kB => 1024 ], [ MB => 1024 ], [ GB => 1024 ] ], kB => [ [ MB => 1024 ], [ GB => 1024 ] ], ms => [ [ s => 1000 ], [ min => 60 ], [ h => 60 ], [ d => 24 ] ],
	min => [ [ h => 60 ], [ d => 24 ] ]);

sub value
{
	my ($value, $unit) = @_;
	return $value eq '' ? 'empty' : "`$value`" if !defined $unit;
	foreach my $step (@{ $UNITS{$unit} // [] })
	{
		last if $value == 0 || $value % $step->[1];
		$value /= $step->[1];
		$unit = $step->[0];
	}
	return "`$value$unit`";
}

sub settings
{
	my ($rows) = @_;
	my $settings = $rows->(q{SELECT name, boot_val, min_val, max_val, enumvals, unit, vartype, context, short_desc, extra_desc FROM pg_settings
		WHERE name LIKE 'outbox.%' ORDER BY name COLLATE "C"});
	my $text = <<'END';
# Settings

Written by `scripts/reference` from a server that preloads the library: edit `src/pg/settings.cpp`. *reload*: in `postgresql.conf` or by `ALTER SYSTEM`, and
`SELECT pg_reload_conf()`; *restart*: the same, and a restart; *superuser*: by `SET`, too, of superusers; *session*: by `SET` of everybody. `\dconfig outbox.*`
in psql shows them.

| setting | default | range | change | |
|---|---|---|---|---|
END
	foreach my $s (@$settings)
	{
		my $range = $s->{vartype} eq 'integer' ? value($s->{min_val}, $s->{unit}) . ' to ' . value($s->{max_val}, $s->{unit}) : $s->{vartype} eq 'bool' ? '`on`, `off`'
		  : $s->{vartype} eq 'enum' ? join(', ', map { "`$_`" } @{ $s->{enumvals} }) : 'text';
		$text .= "| `$s->{name}` | " . value($s->{boot_val}, $s->{unit}) . " | $range | $CHANGE{ $s->{context} } | " . cell(join ' ', grep { defined && length } @$s{qw(short_desc extra_desc)}) . " |\n";
	}
	return $text;
}

1;
