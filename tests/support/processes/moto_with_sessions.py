"""Moto as a program that also enforces the inline policies of assumed roles, which moto itself ignores.

`python moto_with_sessions.py PORT ACCESS_KEY SECRET_KEY ROLE`, with INITIAL_NO_AUTH_ACTION_COUNT=0 to ask IAM from the first
request on. The key belongs to a user who may do everything. The role may do everything too: whatever is refused to an assumed
role is refused by its inline policy.
"""

from __future__ import annotations

import fnmatch
import json
import re
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moto.core.authorization import ActionAuthenticatorMixin
from moto.iam import access_control
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from moto.sts.models import sts_backends
from werkzeug.serving import run_simple

ACCOUNT = "123456789012"
EVERYTHING = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})


def session_allows(policy: str, action: str, resource: str, query: dict[str, list[str]]) -> bool:
    """As IAM judges the statements that Headwater writes: all `Allow`, with at most a pattern of prefixes."""
    for statement in json.loads(policy)["Statement"]:
        assert statement["Effect"] == "Allow" and statement.keys() <= {"Effect", "Action", "Resource", "Condition"}
        actions, resources = (_listed(statement[name]) for name in ("Action", "Resource"))
        if action not in actions or not any(fnmatch.fnmatchcase(resource, pattern) for pattern in resources):
            continue
        prefixes = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        if prefixes is None or any(fnmatch.fnmatchcase(query.get("prefix", [""])[0], pattern) for pattern in prefixes):
            return True
    return False


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def check_session_too(self: Any, resource: str) -> None:
    permitted(self, resource)
    access_key = re.search(r"Credential=([^/]+)/", self._headers["Authorization"])
    assert access_key is not None
    for role in sts_backends[ACCOUNT]["aws"].assumed_roles:
        if role.access_key_id == access_key[1]:
            query = parse_qs(urlsplit(self._path).query, keep_blank_values=True)
            action = f"s3:{S3_ACTIONS.get(self._action.partition(':')[2], self._action.partition(':')[2])}"
            if not session_allows(role.policy, action, resource, query):
                self._raise_access_denied()


S3_ACTIONS = {
    "HeadObject": "GetObject",
    "ListObjectsV2": "ListBucket",
    "ListObjects": "ListBucket",
    "CreateMultipartUpload": "PutObject",
}
permitted = access_control.IAMRequestBase.check_action_permitted


def main() -> None:
    port, access_key, secret_key, role = sys.argv[1:]
    iam = iam_backends[ACCOUNT]["aws"]
    iam.create_user("us-east-1", "server")
    key = iam.create_access_key("server")
    key.access_key_id, key.secret_access_key = access_key, secret_key
    iam.access_keys = {access_key: key}
    iam.put_user_policy("server", "all", EVERYTHING)
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
    made = iam.create_role(role, json.dumps(trust), "/", None, "", [], "3600", None)
    iam.put_role_policy(made.name, "all", EVERYTHING)
    s3_backends[ACCOUNT]["aws"].create_bucket("lake", "us-east-1")
    access_control.IAMRequestBase.check_action_permitted = check_session_too  # type: ignore[method-assign]
    ActionAuthenticatorMixin.request_count = 0
    run_simple("127.0.0.1", int(port), DomainDispatcherApplication(create_backend_app), threaded=True)


if __name__ == "__main__":
    main()
