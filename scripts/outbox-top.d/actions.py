"""What an operator can do from the page. An action is one statement: what is shown before it is done is what is done."""
from dataclasses import dataclass

import psycopg

from observer import words

RETRY_AT_ONCE = 100


def literal(text):
    return "'" + text.replace("'", "''") + "'"


@dataclass
class Action:
    what: str
    statement: str
    function: str  # the right that it takes


def pause(column, name, reason):
    return Action(f"pause {column} {name}", f"SELECT outbox.pause({column} => {literal(name)}, reason => {literal(reason)})", "pause")


def resume(column, name):
    return Action(f"resume {column} {name}", f"SELECT outbox.resume({column} => {literal(name)})", "resume")


def retry(group):
    """Of parked events of one reason; None where trying them again means nothing."""
    error = group.error_code or group.error_class
    if group.state == "dead":
        filters = [f"route => {literal(group.route)}"]
        filters += [f"topic => {literal(group.topic)}"] if group.topic else []
        filters += [f"error => {literal(error)}"] if error else []
        return Action(f"try dead letters of route {group.route} again", f"CALL outbox.redrive({', '.join(filters + ['dry_run => false'])})", "redrive")
    if group.state == "retrying":
        same = f"p.route = {literal(group.route)} AND p.state = 'retrying'"
        same += f" AND p.topic = {literal(group.topic)}" if group.topic else ""
        same += f" AND p.error_code = {literal(group.error_code)}" if group.error_code else ""
        return Action(f"try events of route {group.route} now",
                      f"SELECT count(outbox.retry(e.id, e.route)) FROM (SELECT p.id, p.route FROM outbox.parked_event p"
                      f" WHERE {same} ORDER BY p.created_at LIMIT {RETRY_AT_ONCE}) e", "retry")
    return None


def refusal(action, look):
    """Why it cannot be done here; empty: it can."""
    if look.no_connection:
        return "there is no connection"
    if look.standby:
        return "on a standby nothing can be changed: connect to the primary"
    if not look.may.get(action.function):
        return f"role {look.role} may not: SELECT outbox.grant_operate({literal(look.role)}), as the owner of the extension"
    return ""


def act(conninfo, action):
    """Does it in a connection of its own; says what came of it. Never raises what a server can cause."""
    said = []
    try:
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=5) as connection:
            connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
            connection.execute("SET application_name = 'outbox-top'; SET lock_timeout = '5 s'; SET standard_conforming_strings = on;"
                               " SET search_path = pg_catalog")
            result = connection.execute(action.statement).fetchone()
    except psycopg.Error as error:
        return f"not done: {action.what}: {words(error)}"
    outcome = {True: "done", False: "nothing to do: it is so already"}.get(result[0] if isinstance(result[0], bool) else None)
    return f"{action.what}: {outcome or f'{result[0]} event' + ('' if result[0] == 1 else 's')}" + "".join(f"; {text}" for text in said[:2])
