"""Management requests enter under `/manage/v1`: realms, catalogs, principals, roles, grants, policies; JSON leaves."""
