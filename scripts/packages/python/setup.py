"""The wheel: what `make install` put into microdnn/ and data/ beside this file (scripts/packages/make-wheel)."""
import os

import setuptools
from setuptools.command.bdist_wheel import bdist_wheel


class MachineCode(setuptools.Distribution):
    """Has programs of the machine, as packages with extension modules have."""

    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    """For any Python, nevertheless."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


def files_below(folder):
    return [os.path.join(where, name) for where, _, names in os.walk(folder) for name in sorted(names)]


def by_folder(files):
    """As data_files wants them: below the prefix of the environment, not of the package."""
    folders = {}
    for file in files:
        folders.setdefault(os.path.relpath(os.path.dirname(file), "data"), []).append(file)
    return sorted(folders.items())


with open("README.md", encoding="utf-8") as readme:
    setuptools.setup(
        name="microdnn",
        version=os.environ["VERSION"],
        description="Runs unmodified cuDNN programs in less GPU memory than they ask for",
        long_description=readme.read(),
        long_description_content_type="text/markdown",
        license_expression="Apache-2.0 AND GPL-3.0-or-later",
        license_files=["LICENSE", "NOTICE", "LICENSES/*"],
        python_requires=">=3.8",
        packages=["microdnn"],
        package_data={"microdnn": [os.path.relpath(file, "microdnn") for file in files_below("microdnn")]},
        data_files=by_folder(files_below("data")),
        extras_require={"report": ["matplotlib>=3.6"]},
        entry_points={"console_scripts": ["microdnn = microdnn:main"]},
        distclass=MachineCode,
        cmdclass={"bdist_wheel": Wheel},
    )
