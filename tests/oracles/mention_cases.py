"""A document with mentions of several kinds, by hand."""

from __future__ import annotations

TREE = """\
# newdoc id = d
# global.Entity = GRP-etype
# speaker = Ann
1\tThe\tthe\tDET\tDT\t_\t4\tdet\t_\tEntity=(1-organization
2\tUnited\tUnited\tPROPN\tNNP\t_\t4\tcompound\t_\t_
3\tBird\tBird\tPROPN\tNNP\t_\t4\tcompound\t_\t_
4\tSociety\tSociety\tPROPN\tNNP\tNumber=Sing\t5\tnsubj\t_\tEntity=1)
5\tpraised\tpraise\tVERB\tVBD\t_\t0\troot\t_\t_
6\tJohn\tJohn\tPROPN\tNNP\tNumber=Sing\t5\tobj\t_\tEntity=(2-person
7\tGrant\tGrant\tPROPN\tNNP\tNumber=Sing\t6\tflat\t_\tEntity=2)
8\t,\t,\tPUNCT\t,\t_\t10\tpunct\t_\t_
9\ta\ta\tDET\tDT\t_\t10\tdet\t_\tEntity=(2-person
10\tteacher\tteacher\tNOUN\tNN\tNumber=Sing\t6\tappos\t_\t_
11\tof\tof\tADP\tIN\t_\t12\tcase\t_\t_
12\tchildren\tchild\tNOUN\tNNS\tNumber=Plur\t10\tnmod\t_\tEntity=(3-person)2)
13\t.\t.\tPUNCT\t.\t_\t5\tpunct\t_\t_

# speaker = Bob
1\tUBS\tUBS\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\tEntity=(1-organization)
2\tknows\tknow\tVERB\tVBZ\t_\t0\troot\t_\t_
3\thim\the\tPRON\tPRP\tNumber=Sing|PronType=Prs\t2\tobj\t_\tEntity=(2-person)
4\tand\tand\tCCONJ\tCC\t_\t7\tcc\t_\t_
5\tall\tall\tDET\tDT\t_\t7\tdet\t_\tEntity=(4-person
6\tother\tother\tADJ\tJJ\t_\t7\tamod\t_\t_
7\tteachers\tteacher\tNOUN\tNNS\tNumber=Plur\t3\tconj\t_\t_
8\tthat\tthat\tPRON\tWDT\tPronType=Rel\t9\tnsubj\t_\tEntity=(4-person)
9\tsing\tsing\tVERB\tVBP\t_\t7\tacl:relcl\t_\tEntity=4)
10\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


TYPES = {"organization": 0, "person": 1}
